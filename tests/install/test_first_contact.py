"""Each command of README and docs, typed as it stands, on a machine that has no more than the wheel and its extras.

As root and as a user whose home cannot be written to; in narrow and wide terminals, and without one; without network.
"""

import gzip
import os
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.install.conftest import ROOT, Installed, in_a_terminal
from tests.report.written import life, log

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(900)]

PAGES = ("README.md", *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md")))
COMMAND = re.compile(r"^(?:\$ )?((?:(?:sam|aws) [^|\n]+ \| )?(?:\.venv/bin/)?truemem [a-z-].+?)(?: +#.*)?$")
OUTPUT = re.compile(r"^truemem (INFO|WARN|ERROR|\S+:|\d)")
"""What truemem prints begins like a command."""
ACCOUNT = ("publish", "attach", "detach", "dashboard", "events", "lines", "bisect")
NOT_HERE = re.compile(
    rf"truemem ({'|'.join(ACCOUNT)})\b|--function|--follow|--log-group|--runtime|index\.mjs|\./bootstrap"
    r"|\b(my-function|orders|NAME)(?![.\w])"
)
"""What asks AWS, npm, PyPI or git, or runs the reader's own file: it is refused in one line that says what to try."""
SERVES = ("--event", "--invocations", "--scenario", "--help", "--version")
"""A local run with none of these serves until Ctrl-C."""
ORDINARY_USER = 65534
HANDLER = "def handler(event, context): return event"


def commands(page: str) -> Iterator[str]:
    """Those that are in blocks of code."""
    for block in re.findall(r"^```[^\n]*\n(.*?)^```", (ROOT / page).read_text(), re.S | re.M):
        for line in re.sub(r"\\\n\s*", "", block).splitlines():
            found = COMMAND.match(line.strip())
            if found and not OUTPUT.match(line) and "truemem soak" not in line:  # it takes its time: tests/soak
                yield found[1].replace(".venv/bin/truemem", "truemem")


TYPED = [pytest.param(command, id=f"{page}: {command}") for page in PAGES for command in dict.fromkeys(commands(page))]


class How(NamedTuple):
    """How it is run."""

    user: int = 0
    columns: int = 80
    terminal: bool = False
    variables: tuple[tuple[str, str], ...] = ()


HOW = {
    "root, a terminal of 80 columns": How(terminal=True),
    "user, 200 columns, no terminal, NO_COLOR": How(ORDINARY_USER, 200, variables=(("NO_COLOR", "1"),)),
}


@pytest.fixture(scope="module")
def machine(install: Callable[..., Installed]) -> Iterator[Path]:
    """A folder that any user can read: an environment with the wheel, and a read-only home."""
    if os.geteuid():
        pytest.skip("only root can become another user")
    with tempfile.TemporaryDirectory(prefix="truemem-first-contact-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        install(folder=folder / "installed")
        (folder / "home").mkdir(mode=0o555)
        yield folder


@pytest.fixture
def here(machine: Path) -> Iterator[Path]:
    """The files that the pages name, in a folder that the user can write to."""
    with tempfile.TemporaryDirectory(prefix="work-", dir=machine) as name:
        folder = Path(name)
        lines = [*life("8f73da1a", functionVersion="41", model_id="m"), *life("b", grows=0.5, functionVersion="42")]
        for text in ("my-function.log", "lambda.log", "monday.log", "today.log", "datadog.json"):
            log(folder, lines, text)
        for place in ("src", "logs", "tests", "extensions"):
            (folder / place).mkdir()
        (folder / "logs" / "one.gz").write_bytes(gzip.compress("\n".join(lines).encode()))
        for place in ("app.py", "src/app.py"):
            (folder / place).write_text(HANDLER)
        (folder / "index.mjs").write_text("export const handler = async (event) => event;")
        (folder / "extensions" / "another").symlink_to(ROOT / "tests" / "local" / "extensions" / "recorder.py")
        (folder / "event.json").write_text("{}")
        for place in ("events.jsonl", "tests/events.jsonl"):
            (folder / place).write_text("{}\n")
        for stand_in in ("sam", "aws"):  # each prints the log
            (folder / stand_in).write_text(f"#!/bin/sh\ncat {folder}/my-function.log\n")
            (folder / stand_in).chmod(0o755)
        for path in (folder, *folder.rglob("*")):
            os.chown(path, ORDINARY_USER, ORDINARY_USER)
        yield folder


def run(machine: Path, here: Path, command: str, how: How) -> subprocess.CompletedProcess[str]:
    """Type it in bash, without network."""
    variables = {
        "PATH": f"{here}:{machine / 'installed' / 'bin'}:/usr/bin:/bin:/usr/sbin:/sbin",
        "HOME": str(machine / "home"),
        "COLUMNS": str(how.columns),
        "LANG": "C.UTF-8",
        "PAGER": "cat",
        **dict(how.variables),
    }
    become = ["setpriv", f"--reuid={how.user}", f"--regid={how.user}", "--clear-groups"] if how.user else []
    typed = ["unshare", "--net", "sh", "-c", 'ip link set lo up 2>/dev/null; exec "$@"', "-", *become]
    typed += ["bash", "-o", "pipefail", "-c", command]
    if not how.terminal:
        return subprocess.run(typed, cwd=here, env=variables, capture_output=True, text=True, timeout=800, check=False)
    return subprocess.CompletedProcess(typed, *in_a_terminal(typed, here, variables), "")


@pytest.mark.parametrize("how", HOW.values(), ids=HOW)
@pytest.mark.parametrize("command", TYPED)
def test_a_command_as_it_stands_on_the_page_works(machine: Path, here: Path, command: str, how: How) -> None:
    if "local run" in command and not any(option in command for option in SERVES):
        command = f"timeout --signal=INT 8 {command}"
    if "--baseline" in command:
        _prepare(machine, here, command, how)
    done = run(machine, here, command, how)
    said = done.stdout + done.stderr
    assert "Traceback" not in said
    if NOT_HERE.search(command) or (how.user and "truemem size" in command):  # a limit of CPU needs root
        assert done.returncode == 2, said
        told = " ".join(said.split())  # a terminal's lines are short
        assert re.search(r"truemem .*\b([Tt]ry|Check|Fix) ", told), said
    else:
        assert done.returncode == (124 if command.startswith("timeout") else 0), said


def _prepare(machine: Path, here: Path, command: str, how: How) -> None:
    """The baseline that the command compares with is written by the command on the page before it."""
    if "report" in command:
        done = run(machine, here, "truemem report monday.log --output monday.json", how)
    else:
        done = run(machine, here, "truemem check src/app.py:handler --write-baseline memory.json", how)
    assert done.returncode == 0, done.stdout + done.stderr
