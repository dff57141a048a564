"""Version of the document that `truemem probe` prints."""

SCHEMA = 1
"""Counts up when a reader of the document must change. docs/verified.md is made from documents of this version."""
