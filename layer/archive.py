"""Writes the layer's zip: executables, what functions and collectors load, notices. Always the same bytes."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping
from pathlib import Path

import deflate

DATE = 1 << 5 | 1
"""Date of all entries: 1 January 1980, the earliest that a zip can have."""
UNIX, DEFLATED = 3, 8
FIELDS = struct.Struct("<HHHHHLLLHH")
"""What an entry's two headers share: version needed, flags, method, time, date, CRC-32, sizes, lengths of name and
extra (APPNOTE.TXT of the zip format, 4.3.7 and 4.3.12)."""

EXECUTABLE_MODE, PLAIN_MODE = 0o100755, 0o100644

FILE_PATTERNS = ("python/**/*.py", "truemem/python/*.py", "truemem/*.cjs", "truemem/*.yaml")
"""Files that functions load, and a collector. Lambda has /opt/python on the path of a Python function. `truemem/python`
loads the probe there, for a function whose PYTHONPATH begins with it. `truemem/heap.cjs` is for Node.js, by
NODE_OPTIONS; `truemem/local` is for runs on a developer's machine, and stays out."""


def write(target: Path, executables: Mapping[str, Path], notices: Mapping[str, str]) -> None:
    """Write the zip. `executables` are by their names in the zip, `notices` are texts by file name."""
    here = Path(__file__).parent
    entries = {name: (executable.read_bytes(), EXECUTABLE_MODE) for name, executable in executables.items()}
    for pattern in FILE_PATTERNS:
        for file in sorted(here.glob(pattern)):
            entries[file.relative_to(here).as_posix()] = file.read_bytes(), PLAIN_MODE
    for name, text in sorted(notices.items()):
        entries[f"licenses/truemem/{name}"] = text.encode(), PLAIN_MODE
    partial = target.with_suffix(".partial")
    partial.write_bytes(zipped(entries))
    partial.replace(target)


def zipped(entries: Mapping[str, tuple[bytes, int]]) -> bytes:
    """A zip of these contents and modes. Not by zipfile: it has zlib alone, which makes the layer 58 kB larger."""
    body, directory = bytearray(), bytearray()
    for name, (content, mode) in entries.items():
        packed = deflate.deflate_compress(content, 12)
        fields = FIELDS.pack(
            20, 0, DEFLATED, 0, DATE, zlib.crc32(content), len(packed), len(content), len(name.encode()), 0
        )
        directory += struct.pack("<4sBB", b"PK\1\2", 20, UNIX)
        directory += fields + struct.pack("<HHHLL", 0, 0, 0, mode << 16, len(body)) + name.encode()
        body += b"PK\3\4" + fields + name.encode() + packed
    end = struct.pack("<4sHHHHLLH", b"PK\5\6", 0, 0, len(entries), len(entries), len(directory), len(body), 0)
    return bytes(body + directory + end)
