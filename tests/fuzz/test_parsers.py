"""Any bytes at all, and what is really sent with something happened to it, at everything that takes bytes."""

import os
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from truemem.linux.cgroup import MemorySource
from truemem.linux.oom_score import OomScore
from truemem.linux.process_table import ProcessTable
from truemem.linux.procfs import Procfs
from truemem.measure.environment_memory import EnvironmentMemory
from truemem.measure.recorder import Recorder

from tests.fuzz.seeds import seeds
from tests.fuzz.targets import TARGETS
from tests.golden import unpack

SEEDS = seeds()

SPECIAL = [b"\0", b"\n", b"\r\n\r\n", b"-1", b"9" * 30, b"9" * 5000, b"\xff", b'"', b"[", b"{", b"null", b"NaN", b")"]


@st.composite
def mutated(draw: st.DrawFn, seed: bytes) -> bytes:
    """Pieces replaced, repeated, left out, put in; cut off."""
    data = bytearray(seed)
    for _ in range(draw(st.integers(0, 6))):
        at = draw(st.integers(0, len(data)))
        end = min(len(data), at + draw(st.integers(0, 40)))
        data[at:end] = draw(st.binary(max_size=20) | st.sampled_from([*SPECIAL, bytes(data[at:end]) * 2]))
    return bytes(data[: draw(st.integers(0, len(data)))] if draw(st.booleans()) else data)


@pytest.mark.parametrize("name", TARGETS)
@given(st.data())
def test_any_bytes_give_a_value_or_the_domains_own_error(name: str, data: st.DataObject) -> None:
    seed = data.draw(st.sampled_from(SEEDS[name]))
    TARGETS[name](data.draw(st.binary(max_size=300) | mutated(seed)))


@pytest.mark.parametrize("name", TARGETS)
def test_what_is_really_sent_is_taken(name: str) -> None:
    for seed in SEEDS[name]:
        TARGETS[name](seed)


def close_below(folder: str) -> None:
    """Close this process's files below `folder`, and no other test's."""
    for path in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            if path.readlink().is_relative_to(folder):
                os.close(int(path.name))


@pytest.mark.parametrize("tree", ["lambda", "proxy"])
@given(data=st.data())
def test_a_proc_that_says_anything_is_read_to_its_end(tree: str, data: st.DataObject) -> None:
    """Its owner is the kernel, but names, command lines and environments are the function's."""
    with tempfile.TemporaryDirectory() as folder:
        root = unpack(tree, Path(folder))
        files = sorted(path for path in root.rglob("*") if path.is_file())
        for path in data.draw(st.lists(st.sampled_from(files), max_size=4)):
            path.write_bytes(data.draw(mutated(path.read_bytes())))
        proc = Procfs(str(root))
        table = ProcessTable(proc, "127.0.0.1:9001", oom_score=OomScore(proc, 100))
        recorder = Recorder(table, proc, 512 * 1024)
        table.scan()
        recorder.close(recorder.read_and_reset())
        recorder.levels.sample(late=True)
        table.adopt_elsewhere()
        EnvironmentMemory(table, MemorySource(proc, str(root / "sys/fs/cgroup"))).read()
        close_below(folder)  # the sidecar keeps them for as long as it lives
