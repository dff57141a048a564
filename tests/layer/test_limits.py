"""Started under limits: what it cannot write is lost and counted, what it lacks it says, and no init waits for it."""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from testing.environment import SOURCE
from tests.fuzz.platform import PATIENCE_S, Answer, Platform, invoke
from tests.fuzz.test_hostile_function import Attacked, post
from tests.layer.built import Layer, script

PROGRAMS: dict[str, Callable[[Layer], Path]] = {
    "executable": lambda native: native.executable,
    "source": lambda _: SOURCE,
}
NAMES = ["one", "two", "three"]

pytestmark = pytest.mark.skipif(os.uname().machine != "x86_64", reason="the native layer is x86_64's")


@pytest.fixture(autouse=True, scope="module")
def compiled() -> None:
    """The source: under a limit of file sizes Python 3.11 leaves half a compiled file, which then fails for all."""
    subprocess.run(["python3", "-m", "compileall", "-q", str(SOURCE.parent)], check=True)


def started(program: Path, folder: Path, limit: str, to: str = "") -> Platform:
    """The program under `ulimit`, invoked three times."""
    extension = script(folder, f"ulimit {limit}; exec {program} {to}", name=program.name)
    return Platform([Answer(invoke(name)) for name in NAMES], sidecar=extension)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_limit_of_file_sizes_does_not_kill_it(native: Layer, tmp_path: Path, name: str) -> None:
    """SIGXFSZ would: at the journal, and where standard output is a file."""
    output = tmp_path / "output"
    with started(PROGRAMS[name](native), tmp_path, "-f 0", f">{output}") as platform:
        platform.wait_for_nexts(len(NAMES) + 1)
        platform.end()
        assert "File too large" in platform.told()  # the journal
    assert output.read_bytes() == b""


@pytest.mark.parametrize("name", PROGRAMS)
def test_lines_up_to_such_a_limit_are_whole(native: Layer, tmp_path: Path, name: str) -> None:
    output = tmp_path / "output"
    with started(PROGRAMS[name](native), tmp_path, "-f 2", f">>{output}") as platform:  # a line and a bit
        platform.wait_for_nexts(len(NAMES) + 1)
        platform.end()
    whole = [line for line in output.read_text().splitlines() if line.endswith("}")]
    assert [json.loads(line)["requestId"] for line in whole] == NAMES[: len(whole)]
    assert 0 < len(whole) < len(NAMES)


AS = "truemem WARN RLIMIT_AS is 15 MiB, truemem needs about 16"
DATA = "truemem WARN RLIMIT_DATA is 11 MiB, truemem needs about 12"


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ("-v 15360", [AS]),
        ("-d 11264", [DATA]),
        ("-v 15360; ulimit -d 11264", [AS, DATA]),
        ("-v 16384; ulimit -d 12288", []),
    ],
)
def test_too_low_a_limit_of_memory_is_said_once(
    native: Layer, tmp_path: Path, limits: str, expected: list[str]
) -> None:
    """And that is all, as long as it is enough for what comes."""
    with started(native.executable, tmp_path, limits) as platform:
        platform.wait_for_nexts(len(NAMES) + 1)
        assert [record["requestId"] for record in platform.end()] == NAMES
        told = [line for line in platform.told().splitlines() if "RLIMIT" in line]
    assert told == expected


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("kind", ["-v", "-d"])
@pytest.mark.parametrize(
    "mib", [2, 6, 10, 14, *(pytest.param(mib, marks=pytest.mark.nightly) for mib in (4, 5, 7, 8, 9, 12))]
)
def test_whatever_memory_it_may_have_no_init_waits_for_it(
    native: Layer, tmp_path: Path, name: str, kind: str, mib: int
) -> None:
    """Either it has gone before it registered, or it answers each event up to SHUTDOWN."""
    with started(PROGRAMS[name](native), tmp_path, f"{kind} {mib * 1024}") as platform:
        while platform.sidecar.poll() is None and platform.nexts <= len(NAMES):
            platform.asked.acquire(timeout=0.05)
        if platform.nexts == 0:
            assert platform.exit_code() != 0
            return
        platform._ending.set()
        assert platform.sidecar.wait(PATIENCE_S) == 0


@pytest.mark.parametrize("kib", [256, 8192])
def test_nesting_without_end_does_not_end_it(native: Layer, tmp_path: Path, kib: int) -> None:
    """JSON nested deeper than the stack is large."""
    attacked = Attacked(script(tmp_path, f"ulimit -S -s {kib} && exec {native.executable}"))
    with attacked.platform:
        for body in (b"[" * 500_000, b'{"a":' * 100_000, b"[{" * 5000):
            attacked.send(post(body))
        assert sum(record.get("dropped", 0) for record in attacked.end()) == 3
