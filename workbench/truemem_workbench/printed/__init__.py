"""Reads the sidecar's printed lines back, from logs of all kinds: one decoder, and columns of many lines."""
