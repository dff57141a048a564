"""Leak or not: a labelled corpus, and what the verdict makes of it."""
