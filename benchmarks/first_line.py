"""From nothing to the line: the pages of each language, typed in a fresh environment with the wheel.

Each language has a folder with its page's files, a virtual environment and a home, all new: no cache of pip, npm, Go or
truemem. Their commands are typed as the page has them, and the repair is applied. `make wheel` comes before.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from truemem_workbench.support.bad_input import BadInput

from benchmarks.kit.bench import Bench
from testing import first_line
from testing.pages import Result, Table

TITLE = "From zero to the line"
MOST_S, MOST_COMMANDS = 180, 3
WHEELS = Path(__file__).parents[1] / "dist"
NAMES = {"python": "Python", "nodejs": "Node.js", "typescript": "TypeScript", "java": "Java", "go": "Go"}
HEADINGS = (
    "page", "line named", "after the repair", "commands", "install, s", "truemem, s", "init, s", "to the line, s",
)  # fmt: skip
NOTE = f"""\
The pages docs/first-LANGUAGE.md, as they are, from an empty environment on. Install: pip, with the wheel and its needs;
a slow package index takes longer. Init: with the project's own build, the packages of npm, and Go's standard library
compiled for the first time. In Go a small module stands for AWS's, and in Java an `mvn` of a few lines and the
interfaces of aws-lambda-java-core stand for Maven and its repository: a machine that measures may not reach these
networks. The promise: {MOST_COMMANDS} commands and {MOST_S} s at most to the line that the source has marked, each
command printed by the one before."""


def run(bench: Bench) -> Result:
    wheel = next(iter(sorted(WHEELS.glob("truemem-*.whl"))), None)
    if wheel is None:
        raise BadInput(f"no wheel in {WHEELS}. Try make wheel")
    chosen = bench.chosen(NAMES)
    rows, broken = [], []
    for language in bench.each("languages", chosen):
        row, why = measured(language, wheel)
        bench.echo(" | ".join(row))
        rows.append(row)
        broken += [f"{NAMES[language]}: {each}" for each in why]
    return Result([Table("", HEADINGS, rows, NOTE, text_columns=3)], broken)


def measured(language: str, wheel: Path) -> tuple[list[str], list[str]]:
    """A row of the table, and what was not as promised."""
    with tempfile.TemporaryDirectory(prefix="first-line-", dir=Path.home()) as base:  # no /tmp: that is each function's
        page, done = first_line.typed(language, wheel, Path(base))
    why = first_line.faults(page, done)
    count = len(page.steps)
    seconds = sum(each.seconds for each in done[:count])
    if count > MOST_COMMANDS or seconds > MOST_S:
        why.append(f"{count} commands and {seconds:.0f} s")
    named = page.leak if page.leak in done[count - 1].printed else "no"
    passed = "fails" if any(each.code for each in done[count:]) else "passes"
    steps = [f"{each.seconds:.1f}" for each in done[:count]]
    return [NAMES[language], named, passed, str(count), *steps, f"{seconds:.0f}"], why
