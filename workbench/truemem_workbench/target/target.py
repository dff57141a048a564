"""A function to run, with its configuration and what is beside it."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ..local import Function, Settings
from ..local.configuration.node_function import SUFFIXES
from ..support.platform_facts import (
    AT_ONCE_PER_VCPU,
    MOST_MIB,
    MOST_TIMEOUT_S,
    NODE_THREADS_PER_VCPU,
    TMP_MIB,
    USUAL_GIB_PER_VCPU,
    language,
)
from . import go_program, native_program

NODE_WORKERS = "AWS_LAMBDA_NODEJS_WORKER_COUNT"
"""Variable with which AWS's client for Node.js is told how many worker threads to start on Managed Instances."""

HANDLER = re.compile(r"[\w./-]+\.(?!(?:py|[cm]?js|sh)$)\w+")
"""A handler as a runtime client takes it, and no file that is started."""


@dataclass(frozen=True, kw_only=True)
class Target:
    """A function and its configuration."""

    spec: str
    """The user's name for it, which baselines and reports use."""
    name: str
    """Name of the function, as Lambda permits it."""
    function: Function
    memory_mib: int = 512
    tmp_mib: int = TMP_MIB
    """Size of /tmp: the template's EphemeralStorage."""
    cpu: str | float = "off"
    """Limit of CPU, as in `Settings`."""
    timeout_s: float = 30
    managed_instances: int | None = None
    """Requests at once in its environment on Lambda Managed Instances. None: it is on demand."""
    gib_per_vcpu: float = USUAL_GIB_PER_VCPU
    """Memory for each vCPU there."""
    environment: Mapping[str, str] = field(default_factory=dict)
    source: Path | None = None
    """File that annotations point to, as the user gave it."""
    line: int | None = None
    """Line of the handler in that file, from 1."""
    notices: tuple[str, ...] = ()
    """The parts of its configuration that could not be used, as sentences."""
    http: int | None = None
    """It is a web server behind the Lambda Web Adapter, which listens on this port. None: it asks for events itself."""
    sidecar: bool = True
    """It runs beside the sidecar."""
    exact: bool = True
    """It is measured in exact mode, where that is possible."""
    probe: bool = True
    """It loads the heap probe, where that is possible."""
    names_lines: bool = False
    """The probe is asked which lines of code keep what grows."""
    extensions: Mapping[str, Path] = field(default_factory=dict)
    """Executables that are started beside it, by name. One that is named as the sidecar is replaces it, as that of a
    layer whose folder it is."""

    @property
    def is_explicable(self) -> bool:
        """Can a tracer be put into it?"""
        return not self.why_inexplicable

    @property
    def why_inexplicable(self) -> str:
        """Why no tracer can be put into it, in words that go on after its name. Empty if one can be."""
        if self.http is not None:
            return "is a web server, in which no tracer is started"
        if self.function.image is not None and self.function.language and not HANDLER.fullmatch(self.function.handler):
            return "does not name its handler in the last word of CMD, where a tracer takes its place"
        if self.function.language:
            return ""
        program = self.function.program
        why = go_program.why_not(program)
        return native_program.why_not(program) if why is None else why

    @property
    def variables(self) -> Mapping[str, str]:
        """What its code finds in its environment, without what Lambda sets."""
        return self.function.with_own(self.environment)

    def settings(self, **more: Any) -> Settings:
        """Its settings under the local Lambda, and more of them. Raises BadInput."""
        made: dict[str, Any] = {
            "name": self.name,
            "memory_mib": self.memory_mib,
            "cpu": self.cpu,
            "timeout_s": self.timeout_s,
            "managed_instances": self.managed_instances,
            "environment": self.environment,
            **more,
        }
        if made["managed_instances"] is not None and self.function.language == "nodejs":
            made["environment"] = {NODE_WORKERS: str(self.threads), **made["environment"]}
        return Settings(**made)

    def with_one_worker(self) -> Target:
        """The same on demand, for what one process tells. On Managed Instances a notice says what it stands for."""
        if self.managed_instances is None:
            return self
        stands = f"one worker is run, and stands for {self.managed_instances} requests at once on Managed Instances"
        return replace(
            self,
            managed_instances=None,
            memory_mib=min(self.memory_mib, MOST_MIB),
            timeout_s=min(self.timeout_s, MOST_TIMEOUT_S),
            notices=(*self.notices, f"{stands}: what all of them need, says truemem check {self.spec}"),
        )

    @property
    def vcpus(self) -> float:
        """vCPUs of its environment on Managed Instances: one at least."""
        return max(1.0, self.memory_mib / 1024 / self.gib_per_vcpu)

    @property
    def threads(self) -> int:
        """Worker threads that AWS's client for Node.js starts there."""
        return NODE_THREADS_PER_VCPU * math.ceil(self.vcpus)

    @property
    def workers(self) -> int:
        """How many of its workers wait for a request on Managed Instances when none runs: processes in Python, threads
        in Node.js; of other programs as many as requests at once."""
        at_once = self.managed_instances or 1
        return int(self.environment.get(NODE_WORKERS, self.threads)) if self.function.language == "nodejs" else at_once


def usual_at_once(runtime: str | None, vcpus: float) -> int:
    """Requests at once on Managed Instances if the function does not say. 1 for a runtime without a default."""
    return max(1, int(AT_ONCE_PER_VCPU.get(language(runtime or "") or "", 1) * vcpus))


def name_from(text: str) -> str:
    """Make a function's name that Lambda permits."""
    return re.sub(r"[^A-Za-z0-9_-]", "-", text)[:64] or "function"


def line_of(source: Path, handler: str) -> int | None:
    """The line in which the handler is defined, if it is a plain function."""
    if source.suffix in SUFFIXES:
        exported = re.compile(
            rf"\s*(export\s+(async\s+)?(function|const|let|var)|(module\.)?exports\.)[\s*]*{handler}\b"
        )
        lines = source.read_text(encoding="utf-8", errors="replace").splitlines()
        return next((number for number, line in enumerate(lines, 1) if exported.match(line)), None)
    functions = ast.FunctionDef | ast.AsyncFunctionDef
    try:
        body = ast.parse(source.read_bytes()).body
    except SyntaxError:  # of a newer Python than ours
        return None
    return next((each.lineno for each in body if isinstance(each, functions) and each.name == handler), None)
