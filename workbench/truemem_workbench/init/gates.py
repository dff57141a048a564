"""Runs what init has written: the project's builds, and the gate of each function, in child processes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import click

from ..support.bad_input import BadInput
from ..support.exit_codes import CLEANUP_S
from ..support.terminal import notify
from ..support.typed_command import Command
from ..support.untrusted_text import parsed, visible
from .found import Build, Found
from .tree import tree

LAST_LINES = 8
"""Lines of a failed build that are shown."""


@dataclass(frozen=True, kw_only=True)
class Ran:
    """What the gate said of a function."""

    found: Found
    command: Command
    code: int
    text: str
    """What it has printed."""
    why: str = ""
    """Why it has no answer."""
    document: Mapping[str, Any] | None = None

    @property
    def finding(self) -> Mapping[str, Any]:
        found = (self.document or {}).get("finding")
        return found if isinstance(found, Mapping) else {}

    @property
    def is_failing(self) -> bool:
        """Its invocations fail: the event, a variable or a package is not what it needs."""
        return self.finding.get("cause") == "failing"

    @property
    def events(self) -> str:
        """The file of its events."""
        return dict(self.command.options)["--events"] or ""

    @property
    def said(self) -> str:
        """The finding in a few words, with the line."""
        growth = [each["measured"] for each in (self.document or {}).get("limits", []) if each["name"] == "growth"]
        lines = ((self.document or {}).get("explanation") or {}).get("lines") or [{}]
        first = lines[0]
        place = f", {first['file']}:{first['line']}" if first.get("file") else ""
        return f"{growth[0]}{place}" if growth else next(iter(self.finding.get("evidence", [])), self.why)

    @property
    def outcome(self) -> str:
        """`passed`, `failed`, or `unknown`, as in the document of `truemem check`."""
        return str((self.document or {}).get("outcome", "unknown"))

    @property
    def rank(self) -> tuple[int, float]:
        """How bad it is: what broke its gate first, and of these what grows most."""
        order = {"failed": 2, "unknown": 1}
        return order.get(self.outcome, 0), float(self.finding.get("perInvocationKiB") or 0.0)


def build(builds: Sequence[Build]) -> list[Path]:
    """Run the builds. Returns the files that are new beside the sources: not those of a folder of packages or of what
    is built. Raises BadInput with the last lines of a build that fails."""
    before = tree(Path()) if builds else None
    for each in builds:
        _build(each)
    after = tree(Path()) if before is not None and before.is_whole else None
    return sorted({*after.files} - {*before.files}) if before and after and after.is_whole else []


def _build(each: Build) -> None:
    notify("truemem init", f"building: {each}")
    if shutil.which(each.tool, path=f"{os.environ.get('PATH', os.defpath)}:{each.folder}") is None:
        raise BadInput(f"{each.tool} is not on the PATH, and {each} needs it. Install it, or build it, and"
                       " type truemem init again")  # fmt: skip
    command = ["/bin/sh", "-c", each.command]
    done = subprocess.run(
        command, cwd=each.folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, errors="replace", check=False,
    )  # fmt: skip
    if done.returncode:
        for line in done.stdout.splitlines()[-LAST_LINES:]:
            click.echo(f"  {visible(click.unstyle(line))}", err=True)
        raise BadInput(f"the build failed, as it says above. Repair that, and type truemem init again ({each})")


def check(found: Found, command: Command, *, shown: bool = True) -> Ran:
    """Run the gate of a function. A signal ends it; what it has measured so far is printed if `shown`."""
    with tempfile.TemporaryDirectory(prefix="truemem-init-") as folder, tempfile.TemporaryFile() as out:
        file = Path(folder, "answer.json")
        words = [*command.arguments, *(word for option in command.options for word in option if word is not None)]
        variables = {name: value for name, value in os.environ.items() if name != "GITHUB_STEP_SUMMARY"}
        if sys.stdout.isatty():
            variables.setdefault("COLUMNS", str(shutil.get_terminal_size().columns))
        is_terminal = sys.stderr.isatty()
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "truemem_workbench.commands", "check", "--output", str(file), *words],
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=None if is_terminal else subprocess.PIPE,
        )
        with _ended(process, out if shown else None):
            why = _told(process.stderr) if process.stderr else "it could not be run: see above"
            code = process.wait()
        out.seek(0)
        text = out.read().decode(errors="replace")
        document = parsed(file.read_bytes()) if file.is_file() else None
    return Ran(
        found=found, command=command, code=code, text=text, document=document, why="" if document is not None else why
    )


def _told(stderr: IO[bytes]) -> str:
    """Pass on what it says, and return the last line."""
    last = ""
    for raw in stderr:
        line = visible(raw.decode(errors="replace").rstrip("\n"))
        click.echo(line, err=True)
        last = line or last
    return last.removeprefix("truemem check: ")


@contextmanager
def _ended(process: subprocess.Popen[bytes], out: IO[bytes] | None) -> Iterator[None]:
    """End it after a signal, and print what it has measured so far, which is in `out`."""
    try:
        yield
    except BaseException:
        process.terminate()
        try:
            process.wait(CLEANUP_S + 2)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if out is not None:
            out.seek(0)
            click.echo(out.read(), nl=False)
        raise


def worst(ran: Sequence[Ran]) -> Ran:
    """The one to act on first."""
    return max(ran, key=lambda each: each.rank)
