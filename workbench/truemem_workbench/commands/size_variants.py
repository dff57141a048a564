"""`truemem size` over the values of one variable: a sweep for each, and one table."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..support.bad_input import BadInput
from ..support.options import check_outputs, typed
from ..support.terminal import fitted, output, say, table
from ..support.typed_command import following

if TYPE_CHECKING:
    from ..size.result import Result
    from ..size.variants import Comparison, Tried
    from ..size.varied import Variants


def compare(
    context: click.Context,
    variants: Variants,
    try_with: Callable[[tuple[str, ...], str], tuple[Result, int]],
    as_json: bool,
    outputs: Sequence[Path],
) -> int:
    """Try each value, print the comparison, and return the exit code. `try_with` takes the function's variables and
    what to say when the sweep begins; it returns a result and the signal that has ended it early, or 0. A value that
    cannot be tried has a row that says why. Raises BadInput if none can."""
    from ..size.variants import Comparison, Tried

    check_outputs(outputs, ".json")  # a picture is of one value
    tried: list[Tried] = []
    problems: list[BadInput] = []
    signal = 0
    for number, value in enumerate(variants.values, 1):
        try:
            begins = f"{variants.name}={value}: {number} of {len(variants.values)}"
            result, signal = try_with(variants.env(value), begins)
            tried.append(Tried(value=value, result=result))
        except BadInput as problem:
            problems.append(problem)
            tried.append(Tried(value=value, problem=str(problem)))
        if signal:
            break
    if len(problems) == len(tried):
        raise problems[0]
    made = Comparison(
        spec=context.params["target"], name=variants.name, tried=tried, untried=variants.values[len(tried) :]
    )
    command, when = (str(typed(context, "size")), "") if signal else _next(made)
    made = replace(made, next=command, next_when=when)
    document = json.dumps(made.document(), indent=2)
    if as_json:
        click.echo(document)
    else:
        _print(made)
    for path in outputs:
        path.write_text(f"{document}\n", encoding="utf-8")
    return 128 + signal if signal else made.exit_code


def _next(made: Comparison) -> tuple[str, str]:
    """The command of the best value, without one that of the first that was tried; and what must be done before."""
    results = [each.result for each in (made.best, *made.tried) if each is not None and each.result is not None]
    return results[0].next, results[0].next_when


def _print(made: Comparison) -> None:
    from ..size.variants import FIGURES, LAST

    console = output()
    shown = table("", (made.name,), FIGURES, LAST)
    for row in made.rows():
        shown.add_row(*row)
    console.print(fitted(shown, console))
    for sentence in made.sentences():
        say(console, sentence, begin="- ")
    for notice in made.notices():
        say(console, notice, begin="note: ", style="dim")
    console.print(following(made.next, made.next_when), soft_wrap=True)
