"""Labelled curves of memory, invented and recorded, and both verdicts on them."""
