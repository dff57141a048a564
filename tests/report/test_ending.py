"""How the command ends, as a process: the shell sees codes and one line."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import psutil
import pytest
from truemem_workbench.report.collect import WORTH_A_POOL

from tests.report.written import life, line, log

TRUEMEM = (sys.executable, "-m", "truemem_workbench.commands")


def ran(*arguments: str | Path, variables: Mapping[str, str] | None = None, **options: Any) -> CompletedProcess[str]:
    """The command as a process of its own, with these variables beside ours."""
    words = [*TRUEMEM, *map(str, arguments)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    environment = {**os.environ, **(variables or {})}
    return subprocess.run(words, env=environment, text=True, timeout=110, check=False, **pipes)


@pytest.mark.parametrize(("options", "unbuffered"), [(["--json"], ""), ([], "1")], ids=str)
def test_a_full_disk_is_told(options: Sequence[str], unbuffered: str, tmp_path: Path) -> None:
    path = log(tmp_path, [line()])
    with Path("/dev/full").open("w") as full:
        done = ran("report", path, *options, stdout=full, variables={"PYTHONUNBUFFERED": unbuffered})

    assert done.stderr == "truemem: No space left on device. Look at where its output goes, and at TMPDIR\n"
    assert done.returncode == 2


def test_a_reader_that_has_gone_ends_it_in_silence(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = ran("report", log(tmp_path, [line()]), "--json", stdout=writer)
    os.close(writer)

    assert (done.returncode, done.stderr) == (128 + signal.SIGPIPE, "")


CTRL_C_AT_AN_IMPORT = """
import os, signal, sys
class Finder:
    def find_spec(self, name, *_):
        if name == "click":
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Finder())
from importlib.metadata import entry_points
(entry,) = entry_points(group="console_scripts", name="truemem")
entry.load()()
"""


def test_ctrl_c_while_modules_are_imported_ends_it_in_silence() -> None:
    done = subprocess.run(
        [sys.executable, "-c", CTRL_C_AT_AN_IMPORT], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")


def test_an_error_of_its_own_is_no_broken_limit(tmp_path: Path) -> None:
    (tmp_path / "rich.py").write_text("raise RuntimeError('planted')")
    path = f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"
    done = ran("report", log(tmp_path, [line()]), variables={"PYTHONPATH": path})

    assert done.returncode == 2
    assert "RuntimeError: planted" in done.stderr
    assert "this is an error of truemem" in done.stderr.splitlines()[-1]


@pytest.fixture
def temporary() -> Iterator[Path]:
    """A short path: where it is long, processes are started in another way."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


def started(path: str | Path, temporary: Path) -> subprocess.Popen[str]:
    """A report in a process group of its own, with all its pipes and that TMPDIR."""
    pipes: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    variables = {**os.environ, "TMPDIR": str(temporary)}
    return subprocess.Popen([*TRUEMEM, "report", str(path)], text=True, env=variables, start_new_session=True, **pipes)


def ends_by(process: subprocess.Popen[str], number: signal.Signals, temporary: Path) -> None:
    """In one line, and leaves nothing."""
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (128 + number, "", f"truemem: ended by {number.name}\n")
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
def test_a_signal_ends_it_while_it_reads_standard_input(number: signal.Signals, temporary: Path) -> None:
    process = started("-", temporary)
    while not list(temporary.glob("*/standard-input")):
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(number)
    ends_by(process, number, temporary)


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of so many environments that it is judged on all cores, and takes seconds to read."""
    content = "".join(f"{each}\n" for each in life("12345678", 1000))
    path = tmp_path_factory.mktemp("large") / "log"
    with path.open("w") as file:
        for number in range(2 * WORTH_A_POOL // len(content)):
            file.write(content.replace("12345678", f"{number:08}"))
    return path


def test_a_signal_ends_it_while_it_reads(large: Path, temporary: Path) -> None:
    process = started(large, temporary)
    while not list(temporary.rglob("*.part")):
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    ends_by(process, signal.SIGINT, temporary)


def judges_of(process: subprocess.Popen[str]) -> list[psutil.Process]:
    """All processes that it has started, when they read or judge: one for each core."""
    while len(found := psutil.Process(process.pid).children(recursive=True)) < (os.cpu_count() or 1):
        assert process.poll() is None
        time.sleep(0.01)
    time.sleep(0.2)
    return found


def test_ctrl_c_reaches_the_judges_too_and_they_say_nothing(large: Path, temporary: Path) -> None:
    process = started(large, temporary)
    judges_of(process)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    ends_by(process, signal.SIGINT, temporary)


def test_a_long_name_of_tmpdir_is_no_error(large: Path, tmp_path: Path) -> None:
    long = tmp_path / ("x" * 100)
    long.mkdir()
    process = started(large, long)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")
    assert out.startswith("1 function, ")
    assert list(long.iterdir()) == []


def test_a_judge_that_is_killed_is_told(large: Path, temporary: Path) -> None:
    process = started(large, temporary)
    judges_of(process)[0].kill()
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err.count("\n")) == (2, "", 1)
    assert "a process of the report was killed, perhaps because memory ran out. Try fewer files at once" in err
    assert list(temporary.iterdir()) == []


def test_no_judge_outlives_a_command_that_was_killed(large: Path, temporary: Path) -> None:
    process = started(large, temporary)
    judges = judges_of(process)
    process.kill()
    process.communicate(timeout=60)  # until the last of them has closed its end
    while any(each.is_running() and each.status() != psutil.STATUS_ZOMBIE for each in judges):
        time.sleep(0.01)  # the test's own time limit ends it otherwise
