"""Which variable has several values. Pure, and without the imports that a sweep needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..support.bad_input import BadInput


@dataclass(frozen=True)
class Variants:
    """The values of one variable that were given: `--env MODEL=a --env MODEL=b`."""

    name: str
    values: Sequence[str]
    rest: Sequence[str]
    """The other variables, each NAME=VALUE."""

    def env(self, value: str) -> tuple[str, ...]:
        """The variables of the function with this value."""
        return (*self.rest, f"{self.name}={value}")


def variants_of(env: Sequence[str]) -> Variants | None:
    """The variable that has several values. None if each has one. Raises BadInput if two have."""
    values: dict[str, dict[str, None]] = {}
    for each in env:
        name, _, value = each.partition("=")
        values.setdefault(name, {})[value] = None
    several = [name for name, given in values.items() if len(given) > 1]
    if len(several) > 1:
        raise BadInput(
            f"--env: {' and '.join(several)} have several values each, and one variable can vary. Try one value of"
            f" {several[1]}"
        )
    if not several:
        return None
    [name] = several
    rest = [each for each in env if not each.startswith(f"{name}=")]
    return Variants(name, [*values[name]], rest)
