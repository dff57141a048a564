"""From nothing to the line: the pages of each language, typed in a fresh environment with the wheel.

Each language has a folder with its page's files, a virtual environment and a home, all new: no cache of pip, npm, Go or
truemem. Their commands are typed as the page has them, and the repair is applied. `make wheel` comes before.
"""

from __future__ import annotations

import tempfile
import time
import venv
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
The pages docs/first-LANGUAGE.md, as they are. Install: the environment, and pip with the wheel and its needs; a slow
package index takes longer. Init: with the project's own build, the packages of npm, and Go's standard library compiled
for the first time. In Go a small module stands for AWS's, and in Java an `mvn` of a few lines and the interfaces of
aws-lambda-java-core stand for Maven and its repository: a machine that measures may not reach these networks. The
promise: {MOST_COMMANDS} commands and {MOST_S} s at most to the line that is marked in the page's source, each command
printed by the one before."""


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
    page = first_line.read(language)
    with tempfile.TemporaryDirectory(prefix="first-line-", dir=Path.home()) as base:  # no /tmp: that is each function's
        folder, home, programs = (Path(base, name) for name in ("orders", "home", "bin"))
        for each in (folder, home, programs):
            each.mkdir()
        first_line.write(page, folder)
        own = first_line.stand_ins(language, folder, home, programs, npm=False)
        (folder / Path(page.steps[0].command.split()[-1])).symlink_to(wheel)
        began = time.monotonic()
        venv.create(Path(base, "venv"), with_pip=True, symlinks=True)
        made_s = time.monotonic() - began
        variables = first_line.variables(home, programs, Path(base, "venv", "bin"), **own)
        done = [*first_line.take(page.steps, folder, variables)]
        first_line.repair(page, folder)
        proof = [*first_line.take(page.proof, folder, variables)]
    why = [f"{page.leak} was not named"] * (page.leak not in done[-1].printed)
    why += [f"not printed before: {each}" for each in first_line.untold([*done, *proof])]
    why += [f"quoted, not printed: {text}" for each in (*done, *proof) for text in first_line.unlike(each)]
    why += [f"{each.step.command} ended with {each.code}" for each in proof if each.code]
    seconds = made_s + sum(each.seconds for each in done)
    why += [f"{len(done)} commands"] * (len(done) > MOST_COMMANDS) + [f"{seconds:.0f} s"] * (seconds > MOST_S)
    steps = [f"{done[0].seconds + made_s:.0f}", *(f"{each.seconds:.1f}" for each in done[1:])]
    named = page.leak if page.leak in done[-1].printed else "no"
    passed = "passes" if not any(each.code for each in proof) else "fails"
    return [NAMES[language], named, passed, str(len(done)), *steps, f"{seconds:.0f}"], why
