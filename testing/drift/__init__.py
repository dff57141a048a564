"""Labelled curves of memory, synthetic and recorded, and both verdicts on them."""
