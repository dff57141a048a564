"""Sockets: who has one open, and what it is connected to."""

from __future__ import annotations

import posix

from ..support.files import READ_FLAGS
from .procfs import gone


def parse_tcp(text: bytes) -> list[tuple[int, int, int]]:
    """(local port, remote port, inode) of each socket in /proc/net/tcp or tcp6; the remote port is 0 where it listens.
    Lines that are cut off are left out."""
    rows = []
    for line in text.split(b"\n")[1:]:
        fields = line.split(None, 10)
        try:
            local, remote = (int(field[field.rindex(b":") + 1 :], 16) for field in fields[1:3])
            rows.append((local, remote, int(fields[9])))
        except (ValueError, IndexError):
            continue
    return rows


def connections(root: str) -> list[tuple[int, int, int]]:
    """Every TCP socket of this network namespace, as parse_tcp has it. The kernel gives a page at a time."""
    rows: list[tuple[int, int, int]] = []
    for name in "net/tcp", "net/tcp6":
        text = b""
        try:
            descriptor = posix.open(f"{root}/{name}", READ_FLAGS)
            try:
                while piece := posix.read(descriptor, 65536):
                    text += piece
            finally:
                posix.close(descriptor)
        except OSError:
            pass  # parse what was read until then
        rows += parse_tcp(text)
    return rows


def sockets(root: str, pid: int) -> set[int]:
    """Inodes of the sockets that the process has open. Raises Gone."""
    folder = f"{root}/{pid}/fd/"
    found: set[int] = set()
    try:
        for name in posix.listdir(folder):
            try:
                link = posix.readlink(folder + name)
            except OSError:
                continue  # closed meanwhile
            if link.startswith("socket:[") and link[8:-1].isdecimal():
                found.add(int(link[8:-1]))
    except OSError as error:
        gone("fd", error)
    return found
