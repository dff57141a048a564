"""The command `truemem init`."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import click

from ..support.bad_input import BadInput, need_linux
from ..support.exit_codes import UNUSABLE_CODE, Ended, exit_with
from ..support.terminal import notify
from ..support.typed_command import following

if TYPE_CHECKING:
    from ..init.gates import Ran

CIS = ("github", "gitlab", "none")
PATIENCE_S = 300.0
"""After so many seconds no further function of a project is run: its gate in CI runs all."""
EPILOG = """
\b
Examples:
  truemem init
  truemem init services/orders
  truemem init src/app.py:handler --ci gitlab
  truemem init --dry-run
\b
Exit codes:
  0  all functions passed, or nothing was to be run
  1  the memory of one grows
  2  nothing was found, a build failed, or one could not be judged
  130, 143  Ctrl-C or SIGTERM
"""


@click.command(epilog=EPILOG)
@click.argument("path", default=".", metavar="[PATH]")
@click.option("--function", "name", metavar="NAME", help="Only this one of the functions that were found.")
@click.option("--ci", type=click.Choice(CIS), help="The CI to write the gate for [default: the repository's].")
@click.option("--install", metavar="WHAT", help="What pip installs in CI to get truemem: git+https://..., or a wheel.")
@click.option("--no-run", is_flag=True, help="Write the files; build and run nothing.")
@click.option("--dry-run", is_flag=True, help="Print what would be written, and what would be run.")
@click.option("--force", is_flag=True, help="Overwrite files that have been changed.")
@click.option("--json", "as_json", is_flag=True, help="Print a document.")
@click.pass_context
def init(context: click.Context, /, **given: Any) -> None:
    """Find the functions here, write their gate for CI, and run it once.

    PATH is a folder, a template (SAM, CDK, serverless.yml), a source, or one function as `truemem check` takes it. It
    builds what is not built, by the project's own command. It writes events like AWS's, and the gate for GitHub Actions
    or GitLab. It changes no file that you have edited without --force.
    """
    exit_with(context, "truemem init", lambda: _init(**given))


def _init(
    *, path: str, name: str | None, ci: str | None, install: str | None, no_run: bool, dry_run: bool, force: bool,
    as_json: bool,
) -> int:  # fmt: skip
    from ..init import answer, gates
    from ..init.plan import plan

    if no_run and dry_run:
        raise BadInput("--no-run with --dry-run: leave one out")
    made = plan(path, name, ci, install)
    for note in made.notes:
        notify("truemem init", note)
    if dry_run:
        answer.dry(made)
        return 0
    states = {file: file.state for file in made.files}
    for file, state in states.items():
        if state in ("new", "install") or (state == "other" and force):
            file.write()
            states[file] = "new"
    if not as_json:
        answer.told(made, states)
    ran: list[Ran] = []
    signal = 0
    if not no_run:
        need_linux("truemem init")
        new = gates.build(made.builds)
        if not as_json:
            answer.built(new)
        began = time.monotonic()
        for number, (found, command) in enumerate(made.checks, 1):
            if ran and time.monotonic() - began > PATIENCE_S:
                break
            notify("truemem init", f"running {number} of {len(made.checks)}: {command}")
            try:
                ran.append(gates.check(found, command, shown=not as_json))
            except Ended as ended:  # what it has measured is printed; the answers before it are below
                signal = ended.number
                break
    if signal and not ran:
        return 128 + signal
    if as_json:
        click.echo(json.dumps(answer.document(made, states, ran), indent=2))
    else:
        answer.answer(ran, [found.name for found, _ in made.checks[len(ran) :]])
        click.echo(following(*answer.next_step(made, ran)))
    if signal:
        return 128 + signal
    is_whole = no_run or len(ran) == len(made.checks)
    codes = {*(each.code for each in ran), *(() if is_whole else (UNUSABLE_CODE,))}
    return next((code for code in codes if code > UNUSABLE_CODE), 1 if 1 in codes else max(codes, default=0))
