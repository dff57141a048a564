"""Runs the gate on one version, in a child process, and reads what it says."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..support.document import known_members
from ..support.exit_codes import CLEANUP_S
from ..support.terminal import PROGRESS_FILE
from ..support.typed_command import Command
from .search import Outcome, Ready, Version

OUTCOMES: Mapping[str, Outcome] = {"passed": "good", "failed": "bad"}
OWN = ("growth", "errors", "records")
"""Limits that the finding's own words cover."""


@dataclass(frozen=True, kw_only=True)
class Trial:
    """What the gate said of one version."""

    version: Version
    outcome: Outcome
    said: str
    """Cause, rate and limits; or why it was skipped."""
    seconds: float
    cause: str = ""
    low_kib: float | None = None
    per_invocation_kib: float | None = None
    high_kib: float | None = None
    """Growth per invocation, with its 95 % interval."""

    def document(self) -> dict[str, object]:
        members = {
            "version": self.version.name,
            "date": self.version.date or None,
            "subject": self.version.subject or None,
            "outcome": self.outcome,
            "said": self.said,
            "cause": self.cause or None,
            "perInvocationKiB": self.per_invocation_kib,
            "seconds": round(self.seconds, 1),
        }
        return known_members(members)


def run(check: Command, ready: Ready, *flags: str) -> tuple[Mapping[str, Any] | None, str]:
    """Run `check` on this version. Returns the document of --json, and why there is none. A signal ends the child."""
    command = check
    for option, value in ready.options:
        command = command.with_option(option, value)
    words = [word for option, value in command.options for word in ((option,) if value is None else (option, value))]
    variables = {name: value for name, value in os.environ.items() if name != "GITHUB_STEP_SUMMARY"}
    variables[PROGRESS_FILE] = ""  # how far the search is, is said
    child = [sys.executable, "-P", "-m", "truemem_workbench.commands", "check", "--json", *flags, *words]
    # a session of its own: Ctrl-C comes here alone, and the child is told to end
    with (
        subprocess.Popen(
            [*child, "--", ready.spec],
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
        ) as process,
        _ended(process),
    ):
        out, err = process.communicate()
    if out.startswith("{"):
        document: Mapping[str, Any] = json.loads(out)
        return document, ""
    said = [line for line in err.splitlines() if line.strip()]
    return None, _within((said or [f"it ended with exit code {process.returncode}"])[-1], ready.folder)


@contextmanager
def _ended(process: subprocess.Popen[str]) -> Iterator[None]:
    try:
        yield
    except BaseException:
        process.terminate()
        try:
            process.communicate(timeout=CLEANUP_S + 2)
        except subprocess.TimeoutExpired:
            process.kill()
        raise


def tried(version: Version, check: Command, ready: Ready) -> Trial:
    """What the gate says of this version."""
    began = time.monotonic()
    document, why = run(check, ready, "--no-explain", "--no-try-repair")
    seconds = time.monotonic() - began
    if document is None:
        why = why.removeprefix("truemem check: ")
        return Trial(version=version, outcome="skipped", said=why, seconds=seconds)
    finding = document["finding"]
    return Trial(
        version=version,
        outcome=OUTCOMES.get(document["outcome"], "skipped"),
        said=_within(said_of(document), ready.folder),
        seconds=seconds,
        cause=finding["cause"],
        low_kib=finding.get("low"),
        per_invocation_kib=finding.get("perInvocationKiB"),
        high_kib=finding.get("high"),
    )


def said_of(document: Mapping[str, Any]) -> str:
    """The finding of a check in a few words, and the limits that the user has set."""
    finding = document["finding"]
    rate, evidence = finding.get("perInvocationKiB"), finding["evidence"][:1]
    words: Sequence[str] = [finding["cause"], *([f"{rate:,.1f} KiB"] if rate is not None else [])]
    if finding["cause"] in ("none", "failing", "undecided") and evidence:
        words = [finding["cause"], re.sub(r"^\d+ of them said: ", "", evidence[0])]
    limits = [
        f"{each['name']} {each['measured']}"
        for each in document["limits"]
        if each["name"] not in OWN and each["measured"] != "unknown"
    ]
    return "; ".join([", ".join(words), *limits])


def holding(check: Command, ready: Ready) -> Mapping[str, Any] | None:
    """The line that holds most of what grows in this version, as `truemem check` tells it; None if it names none."""
    document, _ = run(check, ready, "--no-try-repair")
    lines = ((document or {}).get("explanation") or {}).get("lines") or []
    line: Mapping[str, Any] | None = next((each for each in lines if each.get("file")), None)
    return {**line, "file": _within(_within(str(line["file"]), ready.folder), Path.cwd())} if line else None


def _within(text: str, folder: Path | None) -> str:
    """The text, with paths below the folder as a user knows them."""
    return text.replace(f"{folder}/", "") if folder else text
