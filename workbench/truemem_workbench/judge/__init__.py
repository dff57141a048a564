"""Judges records: leak or not, hoarding or not, and what a log says about the sidecar. Pure."""
