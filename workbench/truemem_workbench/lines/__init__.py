"""Reads the sidecar's lines from log files, as typed records."""

from .line import Line, parse_event, read
from .record import Record, parse_line

__all__ = ["Line", "Record", "parse_event", "parse_line", "read"]
