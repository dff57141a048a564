"""The command `truemem local`."""

from __future__ import annotations

import click

from .lazy_group import Lazy, LazyGroup

COMMANDS = {"run": Lazy("truemem_workbench.cli.local_run:run", "Run a function, as Lambda does.", "local")}


@click.group(cls=LazyGroup, lazy=COMMANDS)
def local() -> None:
    """A Lambda on this machine, with memory: limit, high-water mark, freeze, late reports."""
