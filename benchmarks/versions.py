"""Does `truemem check` judge a function alike on each version of Node.js, and name the line that keeps?

Runs the command with its default options on each handler of functions/versions.mjs, several times on each version.
Three leaks must fail with the marked line first, three that do not leak must pass. Writes results/versions.md: an hour.

Exit codes: 0 every run was right, 1 one was not.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import click

from benchmarks.publish import machine, markdown, replace
from testing.installs import NODES, node

RESULTS = Path(__file__).with_name("results") / "versions.md"
FUNCTIONS = Path(__file__).with_name("functions") / "versions.mjs"
TRUEMEM = Path(sys.executable).with_name("truemem")
SHOWN = ("24", "26")
"""Versions on the page."""
LEAKS = ("buffers", "objects", "listeners")
CLEAN = ("cache", "garbage", "warmed")


@dataclass(frozen=True)
class Run:
    version: str
    handler: str
    cause: str
    outcome: str
    invocations: int
    line: int | None
    """The first that was named."""

    @property
    def right(self) -> bool:
        if self.handler in CLEAN:
            return self.outcome == "passed"
        return (self.outcome, self.cause, self.line) == ("failed", "leak", leaking_line(self.handler))

    def __str__(self) -> str:
        wrong = "" if self.right else " WRONG"
        return f"{self.version} {self.handler}: {self.cause}, {self.outcome}, line {self.line}{wrong}"


def leaking_line(handler: str) -> int:
    """The line of the handler that ends with the mark."""
    lines = FUNCTIONS.read_text(encoding="utf-8").splitlines()
    begin = next(at for at, line in enumerate(lines) if f"function {handler}(" in line)
    return next(at + 1 for at, line in enumerate(lines) if at > begin and line.endswith("// leak"))


def checked(version: str, handler: str) -> Run:
    """Run the command once. Raises Missing where that version cannot be installed."""
    variables = {**os.environ, "PATH": f"{node(version).parent}:{os.environ['PATH']}"}
    with tempfile.TemporaryDirectory(prefix="truemem-versions-") as folder:
        Path(folder).chmod(0o755)  # the function may run as another user
        path = Path(shutil.copy(FUNCTIONS, folder))
        command = [str(TRUEMEM), "check", f"{path}:{handler}", "--json"]
        done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
    if not done.stdout:
        raise RuntimeError(done.stderr)
    document = json.loads(done.stdout)
    lines = document.get("explanation", {}).get("lines", [])
    return Run(
        version=version,
        handler=handler,
        cause=document["finding"]["cause"],
        outcome=document["outcome"],
        invocations=document["invocations"],
        line=lines[0]["line"] if lines else None,
    )


@click.command(help=__doc__)
@click.option("--runs", default=10, show_default=True, help="Of each handler on each version.")
@click.option("--version", "versions", multiple=True, type=click.Choice(NODES), default=SHOWN, show_default=True)
@click.option("--handler", "handlers", multiple=True, type=click.Choice((*LEAKS, *CLEAN)), default=(*LEAKS, *CLEAN))
def main(runs: int, versions: tuple[str, ...], handlers: tuple[str, ...]) -> None:
    """See the module."""
    found = []
    for version in versions:
        for handler in handlers:
            for _ in range(runs):
                found.append(checked(version, handler))
                click.echo(str(found[-1]))
        table = _table([each for each in found if each.version == version])
        click.echo(table)
        if version in SHOWN and (runs, set(handlers)) == (10, {*LEAKS, *CLEAN}):
            text = f"{table}\n\nNode.js {version}, {datetime.now(UTC):%Y-%m-%d}, on {machine()}."
            replace(RESULTS, f"Node.js {version}", text, by="python -m benchmarks.versions")
    sys.exit(0 if all(each.right for each in found) else 1)


def _table(found: list[Run]) -> str:
    rows = []
    for handler in dict.fromkeys(each.handler for each in found):
        runs = [each for each in found if each.handler == handler]
        known = "leak, line named" if handler in LEAKS else "passes"
        most = max(each.invocations for each in runs)
        rows.append([handler, known, f"{sum(each.right for each in runs)} of {len(runs)}", f"{most:,}"])
    return markdown(["handler", "known", "right", "most invocations"], rows, text_columns=2)


if __name__ == "__main__":
    main()
