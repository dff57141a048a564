"""The environment of a scenario: invoke, then look at what the sidecar printed."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import psutil
import truemem
from truemem_workbench.local import Function, Invocation, LocalLambda, Settings
from truemem_workbench.local.configuration.layer import in_exact_mode
from truemem_workbench.printed.document import completed

from .emf_check import valid_emf

FUNCTIONS = Path(__file__).with_name("functions")
EXTENSIONS = Path(__file__).with_name("extensions")
EXTENSION = Path(truemem.__file__).parents[1]
"""Folder of the package `truemem`."""
SOURCE = EXTENSION / "truemem" / "run"
"""The sidecar under an ordinary python3."""
SIDECAR = Path(os.environ.get("TRUEMEM_TEST_SIDECAR") or SOURCE)
"""The sidecar that the scenarios attach, which may be the layer's executable (`make executable`)."""

SLACK_MIB = 0.5
"""Error that the kernel's own bookkeeping may have, as promised."""


class Record:
    """One line of the sidecar, with its members as attributes, also those that a short line does not spell out. An
    absent member is None."""

    def __init__(self, line: str) -> None:
        self.line = line
        self.document = completed(valid_emf(line))

    def __getattr__(self, name: str) -> Any:
        return self.document.get(name)

    def __repr__(self) -> str:
        return json.dumps({name: value for name, value in self.document.items() if name != "_aws"})

    @property
    def growth(self) -> float:
        """Peak over baseline, MiB."""
        return float(self.PeakRSS - self.baselineRSS)


class Environment:
    """A function under the local Lambda, with the sidecar attached."""

    def __init__(
        self,
        function: Path | Function | None = None,
        *,
        sidecar: Path = SIDECAR,
        extensions: Sequence[Path] = (),
        environment: Mapping[str, str] | None = None,
        exact: bool = False,
        runtime: str | None = None,
        **settings: Any,
    ) -> None:
        """`exact` starts the function through the program of exact mode. Its lines are full, unless `environment` has
        TRUEMEM_DETAIL. `runtime`, such as python3.11, decides how AWS's client in Python asks for events: up to
        python3.11 from the main thread, later (the default, see USUAL_PYTHON) from another one."""
        if not isinstance(function, Function):
            function = Function.from_handler(f"{function or FUNCTIONS / 'touch.py'}:handler")
        if runtime is not None:
            function = function.standing_for(runtime)
        variables: Mapping[str, str] = {"TRUEMEM_DETAIL": "always", **(environment or {})}
        if exact:
            made = in_exact_mode(function, variables, sidecar) or in_exact_mode(function, variables, SIDECAR)
            assert made is not None, "the program of exact mode is not there"
            function, variables = made
        chosen = Settings(extensions=[sidecar, *extensions], environment=variables, **settings)
        self.local = LocalLambda(function, chosen)
        self.name = sidecar.name
        self.invocations: list[Invocation] = []

    def __enter__(self) -> Environment:
        self.local.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.local.__exit__(kind, error, trace)

    def invoke(self, do: str = "hold", **event: float) -> dict[str, Any]:
        """Invoke and return the function's answer. Raises AssertionError if the function failed."""
        invocation = self.attempt(do, **event)
        assert invocation.function_error is None, invocation.payload
        assert isinstance(invocation.payload, dict)
        return invocation.payload

    def attempt(self, do: str = "hold", **event: float) -> Invocation:
        """Invoke, with any result."""
        invocation = self.local.invoke({"do": do, **event})
        self.invocations.append(invocation)
        return invocation

    def records(self) -> list[Record]:
        """Shut the environment down, and return a record for each invocation, in order."""
        self.local.stop()
        return [Record(line) for line in self.local.extension_stdout(self.name)]

    def told(self) -> list[Record]:
        """The same. Raises AssertionError if there is not one record for each invocation, in order."""
        records = self.records()
        assert [record.requestId for record in records] == [made.request_id for made in self.invocations]
        return records

    def telemetry_port(self) -> int:
        """The sidecar's port for telemetry. (Its other port, on loopback only, is for exact mode.)"""
        sidecar = psutil.Process(self.local.processes()[f"extension:{self.name}"])
        listening = [made.laddr for made in sidecar.net_connections("tcp4") if made.status == psutil.CONN_LISTEN]
        (port,) = {address.port for address in listening if address.ip == "0.0.0.0"}
        return int(port)

    def log(self) -> str:
        """The sidecar's lines on stderr."""
        lines = [entry.text for entry in self.local.logs if entry.source == f"extension:{self.name}"]
        printed = set(self.local.extension_stdout(self.name))
        return "\n".join(line for line in lines if line not in printed)
