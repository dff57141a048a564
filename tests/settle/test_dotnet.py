"""A .NET process keeps what its diagnostics port says."""

import os
import struct
import subprocess
import sys
import tempfile
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from truemem_workbench.runs.settle import dotnet

from testing.dotnet import built
from testing.installs import Missing

KEEPS = """
using System;
using System.Collections.Generic;

class Closed { readonly byte[] large = new byte[9000]; ~Closed() { large[0] = 1; } }

static class Keeps
{
    static readonly List<byte[]> Kept = new List<byte[]>(1000);

    static void Main()
    {
        for (string line; (line = Console.ReadLine()) != null; Console.WriteLine())
        {
            for (var count = int.Parse(line); count > 0; count--)
            {
                Kept.Add(new byte[16384]);
                GC.KeepAlive(new byte[100_000]);
                GC.KeepAlive(new Closed());
            }
        }
    }
}
"""


@pytest.mark.nightly
@pytest.mark.parametrize("server", ["0", "1"])
def test_dotnet_keeps_what_the_program_keeps(tmp_path: Path, server: str) -> None:
    """16,408 bytes for each array; garbage between two readings, in the heap of large objects or to be finalized."""
    source = tmp_path / "Keeps.cs"
    source.write_text(KEEPS)
    try:
        command = built(tmp_path, source)
    except Missing as missing:
        pytest.skip(str(missing))
    heaps = []
    with (
        tempfile.TemporaryDirectory(prefix=f"{'long-' * 9}", dir="/tmp") as folder,  # 107 bytes with the socket
        subprocess.Popen(
            command,
            stdin=-1,
            stdout=-1,
            env=os.environ | {"TMPDIR": folder, "COMPlus_gcServer": server},
            text=True,
        ) as process,
    ):
        assert process.stdin is not None
        assert process.stdout is not None
        for count in (10, 100, 0, 50):
            process.stdin.write(f"{count}\n")
            process.stdin.flush()
            process.stdout.readline()
            port = dotnet.port(process.pid)
            assert port is not None
            heaps.append(dotnet.settled_kib(process.pid, port))
        process.kill()
    grown = [after - before for before, after in pairwise(heaps)]
    assert grown == pytest.approx([100 * 16_408 / 1024, 0, 50 * 16_408 / 1024], abs=4)


def test_what_has_no_diagnostics_port_is_not_asked() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=-1) as process:
        assert dotnet.port(process.pid) is None
        process.kill()
    assert dotnet.port(process.pid) is None


def a_stream(generation: int, stats: bytes) -> bytes:
    """The stream of .NET 5 or later: a collection of this generation, and one of generation 0 after it."""
    kinds = [(0, struct.pack("<I", at) + dotnet.PROVIDER + struct.pack("<I", kind)) for at, kind in ((7, 2), (9, 4))]
    full, young = (struct.pack("<2IH", 5, number, 0) for number in (generation, 0))
    events = [(7, full), (9, stats), (7, young), (9, bytes(len(stats)))]
    stream = b"Nettrace" + struct.pack("<I", 20) + b"!FastSerialization.1"
    stream += b"\5\5\1" + struct.pack("<3I", 4, 4, 5) + b"Trace\6" + bytes(48) + b"\6"
    for name, block in ((b"MetadataBlock", kinds), (b"StackBlock", []), (b"EventBlock", events)):
        content = struct.pack("<HH16x", 20, 1)
        for kind, payload in block:  # with all parts of the header: 5 numbers, of two bytes or one, and two activities
            content += bytes([0xBF, kind, 0x81, 2, 3, 4, 5, 6, 7]) + bytes(32) + bytes([len(payload)]) + payload
        stream += b"\5\5\1" + struct.pack("<3I", 2, 2, len(name)) + name + b"\6" + struct.pack("<I", len(content))
        stream += bytes(-len(stream) % 4) + content + b"\6"
    return stream + b"\1"


STATS = struct.pack("<10Q3IH2Q", 900, 100, 900, 200, 900, 300, 900, 400, 0, 0, 0, 0, 0, 0, 24, 0)


def test_live_is_what_a_full_collection_promoted() -> None:
    """And the size of pinned objects."""
    assert dotnet.live_kib(a_stream(2, STATS)) == (100 + 200 + 300 + 400 + 24) / 1024
    assert dotnet.live_kib(a_stream(2, STATS[:94])) == (100 + 200 + 300 + 400) / 1024
    with pytest.raises(ValueError, match="no full collection"):
        dotnet.live_kib(a_stream(1, STATS))


def test_a_stream_that_is_cut_off_has_no_figure() -> None:
    stream = a_stream(2, STATS)
    for end in range(len(stream)):
        with pytest.raises(ValueError, match="not"):
            dotnet.live_kib(stream[:end])


@given(st.integers(0, len(a_stream(2, STATS)) - 1), st.binary(min_size=1, max_size=8))
def test_a_stream_that_is_broken_ends_in_no_other_error(at: int, noise: bytes) -> None:
    stream = bytearray(a_stream(2, STATS))
    stream[at : at + len(noise)] = noise
    with suppress(ValueError):
        assert dotnet.live_kib(bytes(stream)) >= 0
