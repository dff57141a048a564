"""The sidecar's lines, read back on the host: from log files to typed records."""

from .line import Line, parse_event, read
from .record import Record, parse_line

__all__ = ["Line", "Record", "parse_event", "parse_line", "read"]
