"""A command that can be typed: what it is, its arguments and its options. It becomes text where it is printed. Pure."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, replace

NEXT = re.compile(r"(?:^| )(Next(?:, [a-z ]+)?: )")
"""Begin of the command that a text ends with, as `following` writes it."""


def following(command: str, when: str = "") -> str:
    """The command to type next, as all commands print it. `when`: what must be done before, as in `after the repair`;
    empty for nothing."""
    return f"Next{f', {when}' if when else ''}: {command}"


@dataclass(frozen=True)
class Command:
    """A command of truemem. `str` is what is typed, quoted for a shell."""

    name: str
    """The command's name, such as `check` or `local run`."""
    arguments: tuple[str, ...] = ()
    options: tuple[tuple[str, str | None], ...] = ()
    """The options, each with its value, None for a flag."""

    def __str__(self) -> str:
        words = [shlex.quote(each) for each in self.arguments]
        for option, value in self.options:
            words += [option] if value is None else [option, shlex.quote(value)]
        return " ".join(["truemem", self.name, *words])

    def has(self, option: str) -> bool:
        """True if the option was given."""
        return any(name == option for name, _ in self.options)

    def named(self, name: str) -> Command:
        """The command of this name, with the same arguments and options."""
        return replace(self, name=name)

    def with_option(self, option: str, value: object = None) -> Command:
        """This command with one option more, a flag if it has no value."""
        if type(value) is float and value.is_integer():  # as it was typed
            value = int(value)
        return replace(self, options=(*self.options, (option, None if value is None else str(value))))

    def without(self, *options: str) -> Command:
        """This command without these options."""
        return replace(self, options=tuple(each for each in self.options if each[0] not in options))
