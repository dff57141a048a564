"""A separate output stream for each worker of AWS's Python runtime client.

The workers are forks of one process. On one pipe their lines would mix, so the client asks for streams at the socket in
`_LAMBDA_TELEMETRY_LOG_FD_PROVIDER_SOCKET`, if that is set (awslambdaric lambda_multi_concurrent_utils.py).
"""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

from .process import LineSink, LineStream

LONGEST_PATH = 107
"""Longest path of a Unix socket in bytes (unix(7))."""


class WorkerOutput:
    """Listens at `path` until `close`. A worker connects twice, for stdout and stderr, without saying which."""

    def __init__(self, path: Path, on_line: LineSink) -> None:
        self._on_line = on_line
        self._streams: list[LineStream] = []
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(str(path))
        path.chmod(0o666)  # the workers are another user
        self._listener.listen(128)
        self._listener.setblocking(False)
        asyncio.get_running_loop().add_reader(self._listener, self._accept)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except BlockingIOError:
                return
            with connection:
                self._streams.append(LineStream(connection.makefile("rb", buffering=0), "stdout", self._on_line))

    def drain(self) -> None:
        """Read every line that was written up to now."""
        for stream in self._streams:
            stream.drain()

    def close(self) -> None:
        asyncio.get_running_loop().remove_reader(self._listener)
        self._listener.close()
        for stream in self._streams:
            stream.close()
