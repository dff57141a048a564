"""What a dashboard needs to know of each function, from its configuration in Lambda."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from truemem.config import Config

from ..aws.clients import client, configuration_of, log_group_in, refused
from ..aws.pace import CALLS_PER_S, Pace, paced
from ..support.bad_input import BadInput

NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
LOG_GROUP = re.compile(r"[\w./#-]{1,512}", re.ASCII)
"""What Lambda and CloudWatch Logs allow. Nothing else gets into queries and titles."""


class Watched(NamedTuple):
    """A function that the dashboard shows."""

    name: str
    memory_mib: int
    log_group: str
    namespace: str = "truemem"
    """CloudWatch namespace of its metrics: its TRUEMEM_NAMESPACE."""
    layered: bool = True
    """False if a layer of truemem could be attached, and none is."""


def watched(configuration: Mapping[str, Any]) -> Watched:
    """Read what Lambda's GetFunctionConfiguration returned. Raises KeyError if it is not Lambda's answer, and BadInput
    if the variables cannot be read."""
    name, memory = configuration["FunctionName"], configuration["MemorySize"]
    environment = configuration.get("Environment") or {}
    if "Error" in environment:
        why = "its variables cannot be read, and TRUEMEM_NAMESPACE may be among them"
        raise BadInput(f"function {name}: {why}. The caller needs kms:Decrypt for its key")
    group = log_group_in(configuration, name)
    if not (NAME.fullmatch(name) and isinstance(memory, int) and LOG_GROUP.fullmatch(group)):
        raise KeyError(name)
    namespace = environment.get("Variables", {}).get("TRUEMEM_NAMESPACE", "")
    layers = [str(layer.get("Arn")) for layer in configuration.get("Layers", ())]
    return Watched(
        name,
        memory,
        group,
        Config({b"TRUEMEM_NAMESPACE": namespace.encode(errors="replace")}).namespace,
        configuration.get("PackageType") == "Image" or any("truemem" in arn for arn in layers),
    )


def look_up(functions: Sequence[str], done: Callable[[int], None]) -> tuple[str, list[Watched]]:
    """Ask Lambda for each function (name or ARN). Returns their region, and each function once, in the given order.

    `done` is called with 1 after each. Raises BadInput.
    """
    found: dict[str, Watched] = {}
    regions: set[str] = set()
    asked = paced(client("lambda"), Pace(CALLS_PER_S))
    for function in functions:
        with refused(f"function {function}", "lambda:GetFunctionConfiguration"):
            configuration = configuration_of(function, asked)
            one = watched(configuration)
            regions.add(configuration["FunctionArn"].split(":")[3])
        found[one.name] = one
        done(1)
    if len(regions) > 1:
        raise BadInput(
            f"functions of {len(regions)} regions ({', '.join(sorted(regions))}). Try one run for each region"
        )
    return regions.pop(), list(found.values())
