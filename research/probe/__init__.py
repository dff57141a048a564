"""Asks Lambda itself what its environment permits, and removes everything again."""

SCHEMA = 1
"""Counts up when a reader of the document must change. docs/verified.md is made from documents of this version."""
