"""Asks Lambda itself what its environment permits, and removes everything again."""
