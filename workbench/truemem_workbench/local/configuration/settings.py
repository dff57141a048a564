"""The settings of a local Lambda."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Literal

from ...support.bad_input import BadInput
from . import release_order

TELEMETRY_STATUSES = (202, 400, 403, 500)
MAX_EXTENSIONS = 10
ON_DEMAND_INIT_S = 10.0
LEAST_MIB, MOST_MIB, MOST_MANAGED_MIB = 128, 10_240, 32_768
AHEAD_INIT_S = 130.0
"""Least time for an init ahead of traffic. The function's timeout counts if it is longer."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings of one execution environment. Construction raises BadInput for a value that Lambda would refuse."""

    name: str = "function"
    memory_mib: int = 512
    """Memory limit of the whole environment, extensions included: 128 to 10,240, on Managed Instances up to 32,768."""
    timeout_s: float = 30
    """Timeout of runtime and extensions together: more than 0, up to 900."""
    port: int = 0
    """Port of the Invoke API; 0 takes a free one."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Environment variables that the function and the extensions get."""
    extensions: Sequence[Path] | Mapping[str, Path] = ()
    """Executables of extensions under their base names, as if in /opt/extensions; a mapping sets other names."""
    release: str = "aws"
    """Release order: `aws` (as AWS's code does: mostly the runtime first), `together` (without a pause, either may be
    first), or `runtime:US` or `extension:US`, which is first by so many microseconds."""
    freeze: Literal["auto", "cgroup", "signal", "off"] = "auto"
    memory_limit: Literal["auto", "cgroup", "watch", "off"] = "auto"
    telemetry: Literal["on"] | int = "on"
    """With a status (202, 400, 403, 500) every subscription gets it as its answer and nothing is delivered. AWS's
    emulator answers 202."""
    log_format: Literal["Text", "JSON"] = "Text"
    user: Literal["auto", "current"] = "auto"
    """`auto`: uid 993 and gid 990, as in Lambda, if root starts it and that user can read the code."""
    init_timeout_s: float | None = None
    """Time limit of init. Default: 10 s on demand, else the function's timeout or 130 s, if that is more. After it, the
    first invocation repeats init."""
    initialization: Literal["on-demand", "provisioned-concurrency", "snap-start"] = "on-demand"
    """`provisioned-concurrency`: init, then a freeze until the first invocation. `snap-start`: also a restore."""
    telemetry_fault: Literal["none", "report-lost", "out-of-order", "slow"] = "none"
    """Fault of telemetry: reports of failed invocations are lost, batches are reversed, or all is seconds late."""
    managed_instances: int | None = None
    """Number of requests at once on Lambda Managed Instances. These never freeze, and log JSON."""

    def __post_init__(self) -> None:
        _check_name(self.name)
        _check_memory(self.memory_mib, managed=self.managed_instances is not None)
        if not 0 < self.timeout_s <= 900:
            raise BadInput(f"timeout of {self.timeout_s:g} s: Lambda has up to 900. Try --timeout 30")
        if not 0 <= self.port <= 65_535:
            raise BadInput(f"port {self.port}: ports go up to 65535. Try --port 0 (a free one)")
        release_order.lead(self.release, Random())
        if self.telemetry != "on" and self.telemetry not in TELEMETRY_STATUSES:
            raise BadInput(f"telemetry {self.telemetry}: it is `on`, 202, 400, 403 or 500. Try --telemetry on")
        if self.managed_instances is not None:
            if self.managed_instances < 1:
                raise BadInput(
                    f"{self.managed_instances} requests at once: an environment serves one or more. "
                    "Try --managed-instances 4"
                )
            if self.initialization != "on-demand":
                raise BadInput(f"{self.initialization} on Managed Instances: Lambda has either. Leave one out")
            # Managed Instances have no other log format, and nothing is frozen between requests that overlap.
            object.__setattr__(self, "log_format", "JSON")
            object.__setattr__(self, "freeze", "off")
        _check_variables(self.environment)
        for path in self.extensions_by_name().values():
            check_extension(path)

    @property
    def initialization_type(self) -> str:
        """Value of `AWS_LAMBDA_INITIALIZATION_TYPE`, and of `initializationType` in the events of init."""
        return self.initialization if self.managed_instances is None else "lambda-managed-instances"

    @property
    def descriptors(self) -> int:
        """Limit of open files for each process. Lambda counts them for the whole environment."""
        return 1024 if self.managed_instances is None else 4096

    @property
    def init_limit_s(self) -> float:
        if self.init_timeout_s is not None:
            return self.init_timeout_s
        return ON_DEMAND_INIT_S if self.initialization_type == "on-demand" else max(AHEAD_INIT_S, self.timeout_s)

    def check_tenant(self, tenant_id: str | None) -> None:
        """Raise BadInput if Lambda has no tenant isolation with these settings."""
        if tenant_id is not None and self.initialization_type != "on-demand":
            raise BadInput(f"tenant {tenant_id!r}: no tenant isolation with {self.initialization_type}. Leave one out")

    def extensions_by_name(self) -> dict[str, Path]:
        """Executables by the extension's name, in the order of launch."""
        if isinstance(self.extensions, Mapping):
            return dict(self.extensions)
        by_name: dict[str, Path] = {}
        for path in self.extensions:
            if path.name in by_name:
                raise BadInput(f"two extensions named {path.name}: {by_name[path.name]} and {path}. Rename one")
            by_name[path.name] = path
        return by_name


def extensions_of(folder: Path) -> list[Path]:
    """The executables of an extensions folder: every entry that is not a directory, as in Lambda. Raises BadInput."""
    if not folder.is_dir():
        raise BadInput(f"no folder {folder} to take extensions from. Try --extensions PATH/extensions")
    found = sorted(path for path in folder.iterdir() if path.is_symlink() or not path.is_dir())
    if not found:
        raise BadInput(f"no extension in {folder}. Put an executable there, or leave --extensions out")
    for path in found:
        check_extension(path)
    return found


def check_extension(path: Path) -> None:
    """Raise BadInput if it is not executable. Lambda executes every file of /opt/extensions."""
    if not path.is_file():
        raise BadInput(f"no extension {path}. Try the path of an executable file")
    if not os.access(path, os.X_OK):
        raise BadInput(f"extension {path} is not executable. Try chmod +x {path}")


def _check_name(name: str) -> None:
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name):
        raise BadInput(
            f"function name {name!r}: up to 64 letters, digits, hyphens and underscores. Try --name my-function"
        )


def _check_memory(mib: int, *, managed: bool) -> None:
    most = MOST_MANAGED_MIB if managed else MOST_MIB
    if not LEAST_MIB <= mib <= most:
        where = "Managed Instances have" if managed else "Lambda has"
        more = f", and on Managed Instances up to {MOST_MANAGED_MIB}" if most < mib <= MOST_MANAGED_MIB else ""
        raise BadInput(f"memory of {mib} MiB: {where} {LEAST_MIB} to {most}{more}. Try --memory 512")


def _check_variables(variables: Mapping[str, str]) -> None:
    for key in variables:
        if not key.isidentifier() or not key[0].isalpha():
            raise BadInput(
                f"environment variable {key!r}: a letter, then letters, digits and underscores. Try --env NAME=VALUE"
            )
    size = sum(len(key) + len(value) for key, value in variables.items())
    if size > 4096:
        raise BadInput(f"environment variables of {size} bytes: Lambda has 4096 in all. Shorten or drop some")
