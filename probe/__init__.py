"""Finds out what Lambda's own kernel allows: a function that tries it, and a client that deploys, asks and removes
it."""
