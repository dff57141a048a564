"""Writes a result to all its places. Each is tried before the run; one that fails does not stop the others."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import click

from ..support.bad_input import BadInput
from ..support.extras import need
from ..support.terminal import console, tell
from . import baseline as baselines
from . import github, junit
from .limits import Limits
from .result import BROKEN, KEPT, UNKNOWN, Result


@dataclass(frozen=True, kw_only=True)
class Outputs:
    form: str
    """What is printed: `text`, `json` or `github`."""
    files: Sequence[Path]
    """Files to write, each as its ending says: .png, .xml (JUnit), .json or .html (what --explain found)."""
    summary: Path | None
    """GitHub's summary of the step."""
    baseline: Path | None
    """The baseline to write."""

    def try_them(self) -> None:
        """Raise BadInput for a place that cannot be written to."""
        if any(path.suffix.lower() == ".png" for path in self.files):
            need("page")
        if any(path.suffix.lower() == ".html" for path in self.files):
            need("explain")
        for path, fix in (
            *((path, f"--output FOLDER/{path.name}") for path in self.files),
            (self.baseline, "--write-baseline PATH/memory.json"),
            (self.summary, "another GITHUB_STEP_SUMMARY, or none"),
        ):
            if path is not None:
                try_place(path, fix)
        if self.baseline is not None:
            baselines.check_place(self.baseline)

    def write(self, result: Result, limits: Limits, spec: str) -> int:
        """Write to all places. Returns the exit code: the result's, or 2 if it passed and a place failed."""
        writers: list[Callable[[], None]] = [lambda: self._print(result)]
        writers += [partial(_write, path, result, limits) for path in self.files]
        if (summary := self.summary) is not None:
            writers.append(lambda: github.add_summary(result, summary))
        if (baseline := self.baseline) is not None:
            writers.append(lambda: _note(result, spec, baseline))
        written = [_written(writer) for writer in writers]
        return UNKNOWN if result.exit_code == KEPT and not all(written) else result.exit_code

    def _print(self, result: Result) -> None:
        if self.form == "json":
            click.echo(_document(result))
            return
        from .terminal import show

        show(result, console())
        if self.form == "github":
            click.echo("".join(f"{error}\n" for error in github.errors(result)), nl=False)


def try_place(path: Path, fix: str) -> None:
    """Raise BadInput if this file cannot be written. `fix` is what to try instead."""
    was_there = path.exists()
    if was_there and not path.is_file() and not path.is_dir():
        return  # a pipe, or a device
    try:
        with path.open("ab"):
            pass
        if not was_there:
            path.unlink()
    except OSError as error:
        raise BadInput(f"cannot write {path}: {error.strerror}. Try {fix}") from None


def _written(writer: Callable[[], None]) -> bool:
    try:
        writer()
    except (BadInput, OSError) as problem:
        tell("truemem check", problem)
        return False
    return True


def _write(path: Path, result: Result, limits: Limits) -> None:
    ending = path.suffix.lower()
    if ending == ".xml":
        junit.write(result, path)
    elif ending == ".json":
        path.write_text(f"{_document(result)}\n", encoding="utf-8")
    elif ending == ".html":
        from ..explain.growth_page import page

        path.write_text(page(result.explanation, result.headline), encoding="utf-8")
    else:
        from .picture import draw  # matplotlib takes a second

        draw(result, limits, path)


def _document(result: Result) -> str:
    return json.dumps(result.document(), indent=2)


def _note(result: Result, spec: str, path: Path) -> None:
    now = baselines.Baseline.of(result.measurement)
    if result.exit_code == KEPT and now is not None:
        baselines.write(path, spec, now)
        tell("truemem check", f"the baseline of {spec} is in {path}")
        return
    why = "a limit was broken" if result.exit_code == BROKEN else "it could not be measured"
    tell("truemem check", f"the baseline of {spec} was not written to {path}: {why}")
