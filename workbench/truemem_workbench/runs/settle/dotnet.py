"""Settles a .NET process by its diagnostics port, and reads what is live in it: what dotnet-gcdump does, but no dump.

The runtime (3.1 and later) listens at $TMPDIR/dotnet-diagnostic-PID-KEY-socket (dotnet/diagnostics: ipc-protocol.md).
A session for the collector's events, with the keyword GCHeapCollect, has it make a full blocking collection; the events
come as a stream in the nettrace format (perfview: NetTraceFormat_v5.md).
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

from .jvm import pid_inside, wait_until_idle

ANSWERS_S = 30.0
COLLECTIONS = 2
"""What a finalizer lets go of, the next collection frees."""

MAGIC = b"DOTNET_IPC_V1\0"
HEADER = struct.Struct("<14sHBBH")
"""Begin of each message: magic, size with the header, set and number of the command, reserved."""
EVENTS, SERVER = 2, 0xFF
"""Sets of commands and of answers."""
STOP, COLLECT, OK = 1, 3, 0
"""COLLECT is CollectTracing2: unlike the first it can leave out the list of all methods."""
PROVIDER = "Microsoft-Windows-DotNETRuntime\0".encode("utf-16-le")
GC, GC_HEAP_COLLECT = 0x1, 0x800000
INFORMATIONAL, BUFFER_MB, NETTRACE = 4, 1, 1

BEGINS = len(b"Nettrace") + 4 + len(b"!FastSerialization.1")
BEGIN_OBJECT, END_OBJECT, NULL_REFERENCE = 5, 6, 1
TRACE_BYTES = 48
"""Size of the object `Trace`: the only one that does not say it."""
GC_END, GC_HEAP_STATS = 2, 4
FULL = 2
"""Generation of a full collection."""
SIZES, PINNED = struct.Struct("<8Q"), struct.Struct("<30xQ")
"""GCHeapStats: size and promoted bytes of generations 0, 1, 2 and of large objects; from .NET 5 on, behind 30 other
bytes, the size of pinned ones (gcee.cpp leaves what is promoted of them at 0)."""


def port(pid: int) -> Path | None:
    """The socket of this process's diagnostics port; None of what is no .NET, or has DOTNET_EnableDiagnostics=0."""
    with suppress(OSError):
        variables = Path(f"/proc/{pid}/environ").read_text(encoding="utf-8", errors="replace").split("\0")
        folder = next((each.partition("=")[2] for each in variables if each.startswith("TMPDIR=")), "/tmp")
        return next(Path(f"/proc/{pid}/root/{folder}").glob(f"dotnet-diagnostic-{pid_inside(pid)}-*-socket"), None)
    return None


def settled_kib(pid: int, path: Path) -> float:
    """Collect the garbage of this .NET process, with this port, and return the size of its live objects, KiB. It must
    run. Raises OSError, ValueError if it does not answer."""
    for _ in range(COLLECTIONS - 1):
        _collected(path)
        wait_until_idle(pid)  # for finalizers
    return live_kib(_collected(path))


def _collected(path: Path) -> bytes:
    """The stream of a session that begins with a collection and ends after it."""
    asked = struct.pack("<II?IQI", BUFFER_MB, NETTRACE, False, 1, GC | GC_HEAP_COLLECT, INFORMATIONAL)
    name = struct.pack("<I", len(PROVIDER) // 2) + PROVIDER
    with closing(_connected(path)) as events, closing(_connected(path)) as stopping, events.makefile("rb") as stream:
        events.sendall(_message(COLLECT, asked + name + bytes(4)))
        magic, size, group, code, _ = HEADER.unpack(stream.read(HEADER.size))
        session = stream.read(size - HEADER.size)
        if (magic, group, code) != (MAGIC, SERVER, OK):
            raise ValueError(f"the runtime refuses a session: {session.hex()}")
        stopping.sendall(_message(STOP, session))
        collected = stream.read()
        stopping.recv(HEADER.size)  # the runtime must not write into a closed connection
        return collected


def _connected(path: Path) -> socket.socket:
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    made.settimeout(ANSWERS_S)
    folder = os.open(path.parent, os.O_PATH)
    try:
        made.connect(f"/proc/self/fd/{folder}/{path.name}")  # the address of a socket has 107 bytes at most
    except OSError:
        made.close()
        raise
    finally:
        os.close(folder)
    return made


def _message(command: int, payload: bytes) -> bytes:
    return HEADER.pack(MAGIC, HEADER.size + len(payload), EVENTS, command, 0) + payload


def live_kib(stream: bytes) -> float:
    """What the last full collection in a nettrace stream has left, KiB: objects, without the free space between them
    (but for pinned ones). Raises ValueError if there is none, or the stream is not understood."""
    try:
        live = _live(stream)
    except (struct.error, IndexError) as error:
        raise ValueError("the runtime's events are not understood") from error
    if live is None:
        raise ValueError("there was no full collection")
    return live / 1024


def _live(stream: bytes) -> int | None:
    kinds: dict[int, int] = {}
    """The runtime's number of each kind of its events."""
    generation, live = -1, None
    for name, block in _blocks(stream):
        if name == b"MetadataBlock":
            for _, payload in _events(block):
                if payload.startswith(PROVIDER, 4):
                    (number,) = struct.unpack_from("<I", payload, 4 + len(PROVIDER))
                    kinds[int.from_bytes(payload[:4], "little")] = number
        elif name == b"EventBlock":
            for kind, payload in _events(block):
                if kinds.get(kind) == GC_END:
                    (generation,) = struct.unpack_from("<4xI", payload)
                elif kinds.get(kind) == GC_HEAP_STATS and generation == FULL:
                    live = sum(SIZES.unpack_from(payload)[1::2])
                    if len(payload) >= SIZES.size + PINNED.size:
                        live += PINNED.unpack_from(payload, SIZES.size)[0]
    return live


def _blocks(stream: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Name and content of each."""
    at = BEGINS
    while stream[at] == BEGIN_OBJECT:
        (length,) = struct.unpack_from("<11xI", stream, at)  # behind three tags and two versions
        name = stream[at + 15 : at + 15 + length]
        at, size = at + 16 + length, TRACE_BYTES
        if name != b"Trace":
            (size,) = struct.unpack_from("<I", stream, at)
            at += 4 + -at % 4
        yield name, stream[at : at + size]
        if stream[at + size] != END_OBJECT:
            raise ValueError("a block does not end")
        at += size + 1
    if stream[at] != NULL_REFERENCE:
        raise ValueError("the stream does not end")


def _events(block: bytes) -> Iterator[tuple[int, bytes]]:
    """The kind and the payload of each event. A header leaves out what is as in the header before it."""
    at, flags = struct.unpack_from("<HH", block)
    if not flags & 1:
        raise ValueError("headers are not compressed")
    kind = size = 0
    while at < len(block):
        flags, at = block[at], at + 1
        if flags & 1:
            kind, at = _number(block, at)
        for _ in range(1 + 3 * bool(flags & 2) + bool(flags & 4) + bool(flags & 8)):  # time, threads, stack
            _, at = _number(block, at)
        at += 16 * (bool(flags & 16) + bool(flags & 32))  # activities
        if flags & 128:
            size, at = _number(block, at)
        yield kind, block[at : at + size]
        at += size


def _number(block: bytes, at: int) -> tuple[int, int]:
    """A number in bytes of seven bits, and the place behind it."""
    number = shift = 0
    while block[at] & 128:
        number |= (block[at] & 127) << shift
        at, shift = at + 1, shift + 7
    return number | block[at] << shift, at + 1
