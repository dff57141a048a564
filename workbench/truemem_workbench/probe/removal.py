"""Removes what a run of the probe has made, by names alone: so also what a run has left that was killed."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

from ..aws.clients import client
from ..aws.layer_zips import ARCHITECTURES
from . import functions
from .functions import ProbeFunction
from .side_by_side import side_by_side

TIMEOUT_S = 60
"""Timeout of each function."""
GIVEN_UP_S = 3.0
"""How long AWS may still work on a request whose answer was not waited for."""
_GONE = ("ResourceNotFoundException", "NoSuchEntity")

Say = Callable[[str], None]


class Removal(NamedTuple):
    """How one thing is removed."""

    what: str
    command: str
    """For a person, if `call` has failed."""
    call: Callable[[], object]

    def again(self) -> Removal:
        """The same for a thing that AWS may be about to make: twice, with a pause."""
        return self._replace(call=partial(_twice, self.call))


class Run:
    """The names of all that one run makes, and how each is removed."""

    def __init__(self, name: str) -> None:
        """Raises BadInput without a region."""
        self.name, self.log_group = name, f"/{name}"
        self.awslambda = client("lambda", read_timeout=TIMEOUT_S + 30)
        self.iam, self.logs = client("iam"), client("logs")

    def function_name(self, architecture: str, function: ProbeFunction) -> str:
        return f"{self.name}-{architecture}-{function.name}"

    def layer_name(self, kind: str) -> str:
        """Name of a layer. `kind` is an architecture or one of functions.LAYERS."""
        return f"{self.name}-{kind}"

    def role(self) -> Removal:
        policy, role = f"--role-name {self.name} --policy-name logs", f"--role-name {self.name}"
        command = f"aws iam delete-role-policy {policy}; aws iam delete-role {role}"
        return Removal(f"role {self.name}", command, self._remove_role)

    def group(self) -> Removal:
        call = partial(self.logs.delete_log_group, logGroupName=self.log_group)
        return self._removal(f"log group {self.log_group}", "logs delete-log-group --log-group-name", call)

    def layer(self, kind: str) -> Removal:
        """Removal of the one version. Lambda does not mind if there is none."""
        call = partial(self.awslambda.delete_layer_version, LayerName=self.layer_name(kind), VersionNumber=1)
        command = "lambda delete-layer-version --version-number 1 --layer-name"
        return self._removal(f"layer {self.layer_name(kind)}", command, call)

    def function(self, architecture: str, function: ProbeFunction) -> Removal:
        name = self.function_name(architecture, function)
        call = partial(self.awslambda.delete_function, FunctionName=name)
        return self._removal(f"function {name}", "lambda delete-function --function-name", call)

    def everything(self) -> list[Removal]:
        """Removals of all that the run can have made."""
        layers = [self.layer(kind) for kind in (*functions.LAYERS, *ARCHITECTURES)]
        made = [self.function(architecture, each) for architecture in ARCHITECTURES for each in functions.ALL]
        return [*made, *layers, self.group(), self.role()]

    def _removal(self, what: str, command: str, call: Callable[[], object]) -> Removal:
        _, name = what.rsplit(maxsplit=1)
        return Removal(what, f"aws {command} {name} --region {self.awslambda.meta.region_name}", call)

    def _remove_role(self) -> None:
        with suppress(self.iam.exceptions.NoSuchEntityException):  # the role may be there all the same
            self.iam.delete_role_policy(RoleName=self.name, PolicyName="logs")
        self.iam.delete_role(RoleName=self.name)


def remove(removals: Sequence[Removal], limit_s: float, say: Say) -> list[Removal]:
    """Remove all, side by side. Names each that could not be removed within so many seconds, and returns them."""
    results: dict[Removal, Any] = side_by_side({each: each.call for each in removals}, limit_s)
    left = []
    for removal, result in results.items():
        code = getattr(result, "response", {}).get("Error", {}).get("Code") if isinstance(result, Exception) else None
        if isinstance(result, Exception) and code not in _GONE:
            left.append(removal)
            say(f"NOT removed: {removal.what}: {' '.join(str(result).split())}. Try {removal.command}")
    return left


def _twice(call: Callable[[], object]) -> object:
    with suppress(Exception):  # the second try says what is wrong
        call()
    time.sleep(GIVEN_UP_S)
    return call()
