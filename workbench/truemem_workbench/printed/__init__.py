"""Reads the sidecar's printed lines back, from logs of all kinds: one decoder, and columns of many lines."""

from .line import Line, parse_event, parse_line, read

__all__ = ["Line", "parse_event", "parse_line", "read"]
