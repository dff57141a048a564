"""Publishes the layer to an account's regions."""
