"""The settings of a local Lambda, and what follows from them: environment variables and release order."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Literal, NamedTuple

from truemem.config import VCPU_MIB

from ...support.bad_input import BadInput
from ...support.platform_facts import (
    LEAST_MIB,
    MOST_MANAGED_MIB,
    MOST_MANAGED_TIMEOUT_S,
    MOST_MIB,
    MOST_TIMEOUT_S,
    MOST_VARIABLE_BYTES,
)
from ..images.image import PATH, Image
from .function import Function

RUNTIME_FIRST = 0.95
RUNTIME_LEAD_US = ((0.0, 0), (0.25, 40), (0.5, 80), (0.9, 200), (0.99, 550), (1.0, 720))
"""Quantiles of the runtime's lead under AWS's own emulator. Its code signals the extensions first, but Go's scheduler
runs first what was signalled last."""
EXTENSION_LEAD_US = 40  # longest lead of the extensions, in the other 5 % of the invocations
LONGEST_US = 1_000_000


class Lead(NamedTuple):
    runtime_first: bool
    us: float
    """Time between the first and the second, in microseconds."""


def release_lead(order: str, chance: Random) -> Lead:
    """Draw the lead of one invocation: `aws`, `together`, `runtime:US` or `extension:US`. Others raise BadInput."""
    if order == "aws":
        if chance.random() < RUNTIME_FIRST:
            return Lead(True, _quantile(chance.random()))
        return Lead(False, chance.uniform(0, EXTENSION_LEAD_US))
    if order == "together":
        return Lead(chance.random() < 0.5, 0)
    first, _, us = order.partition(":")
    if first not in ("runtime", "extension") or not (us.isascii() and us.isdecimal()) or int(us) > LONGEST_US:
        raise BadInput(
            f"release {order!r}: it is aws, together, runtime:US or extension:US, up to {LONGEST_US} microseconds. "
            "Try --release aws"
        )
    return Lead(first == "runtime", int(us))


def _quantile(share: float) -> float:
    """The runtime's lead at this quantile, in microseconds."""
    for (low, low_us), (high, high_us) in pairwise(RUNTIME_LEAD_US):
        if share <= high:
            return low_us + (share - low) / (high - low) * (high_us - low_us)
    return RUNTIME_LEAD_US[-1][1]


LEAST_VCPUS, MOST_VCPUS = 0.05, 6  # the kernel's least quota is 1 ms, in a period of 20 ms


def vcpus_of(cpu: str | float, memory_mib: int, *, managed: bool) -> float | None:
    """The vCPUs of a setting `cpu`; None for no limit. Raises BadInput.

    On Managed Instances `size` is no limit: there the capacity provider sets the GiB of memory for each vCPU.
    """
    if cpu == "off" or (cpu == "size" and managed):
        return None
    if cpu == "size":
        return min(memory_mib / VCPU_MIB, MOST_VCPUS)
    try:
        vcpus = float(cpu)
    except ValueError:
        vcpus = 0.0
    if not LEAST_VCPUS <= vcpus <= MOST_VCPUS:
        raise BadInput(f"cpu {cpu}: it is size, off, or {LEAST_VCPUS} to {MOST_VCPUS} vCPUs. Try --cpu size")
    return vcpus


TELEMETRY_STATUSES = (202, 400, 403, 500)
ON_DEMAND_INIT_S = 10.0
AHEAD_INIT_S = 130.0  # least time for an init ahead of traffic. The function's timeout counts if it is longer.


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings of one execution environment. Construction raises BadInput for a value that Lambda would refuse."""

    name: str = "function"
    memory_mib: int = 512
    """Memory limit of the whole environment, extensions included: LEAST_MIB to MOST_MIB, or to MOST_MANAGED_MIB."""
    timeout_s: float = 30
    """Timeout of runtime and extensions together: more than 0, up to MOST_TIMEOUT_S, or MOST_MANAGED_TIMEOUT_S."""
    port: int = 0
    """Port of the Invoke API; 0 takes a free one."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Environment variables that the function and the extensions get."""
    extensions: Sequence[Path] | Mapping[str, Path] = ()
    """Executables of extensions under their base names, as if in /opt/extensions; a mapping sets other names."""
    release: str = "aws"
    """Release order: `aws` (as AWS's code does: mostly the runtime first), `together` (without a pause, either may be
    first), or `runtime:US` or `extension:US`, which is first by so many microseconds."""
    freeze: Literal["auto", "signal", "off"] = "auto"
    memory_limit: Literal["auto", "watch", "off"] = "auto"
    cpu: str | float = "off"
    """CPU limit of the whole environment: `off`, `size` (the share that the memory size buys), or 0.05 to 6 vCPUs."""
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
        managed = self.managed_instances is not None
        _check_name(self.name)
        _check_memory(self.memory_mib, managed=managed)
        vcpus_of(self.cpu, self.memory_mib, managed=managed)
        _check_timeout(self.timeout_s, managed=managed)
        if not 0 <= self.port <= 65_535:
            raise BadInput(f"port {self.port}: ports go up to 65535. Try --port 0 (a free one)")
        release_lead(self.release, Random())
        if self.telemetry != "on" and self.telemetry not in TELEMETRY_STATUSES:
            raise BadInput(f"telemetry {self.telemetry}: it is `on`, 202, 400, 403 or 500")
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
    def vcpus(self) -> float | None:
        """Limit of CPU, in vCPUs; None without a limit."""
        return vcpus_of(self.cpu, self.memory_mib, managed=self.managed_instances is not None)

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


def _check_timeout(seconds: float, *, managed: bool) -> None:
    if not 0 < seconds <= (MOST_MANAGED_TIMEOUT_S if managed else MOST_TIMEOUT_S):
        allowed = f"more than 0, up to {MOST_TIMEOUT_S}, on Managed Instances up to {MOST_MANAGED_TIMEOUT_S}"
        raise BadInput(f"timeout of {seconds:g} s: Lambda has {allowed}. Try --timeout 30")


def _check_variables(variables: Mapping[str, str]) -> None:
    for key in variables:
        if not key.isidentifier() or not key[0].isalpha():
            raise BadInput(
                f"environment variable {key!r}: a letter, then letters, digits and underscores. Try --env NAME=VALUE"
            )
    size = sum(len(key) + len(value) for key, value in variables.items())
    if size > MOST_VARIABLE_BYTES:
        raise BadInput(
            f"environment variables of {size} bytes: Lambda has {MOST_VARIABLE_BYTES} in all. Shorten or drop some"
        )


REGION = "us-east-1"
ACCOUNT = "123456789012"
FUNCTION_VERSION = "$LATEST"
LOCAL_CREDENTIALS = {
    "AccessKeyId": "local",
    "SecretAccessKey": "local",
    "Token": "local",
    "Expiration": "2099-01-01T00:00:00Z",
}
CREDENTIALS_PATH = "/2021-04-23/credentials"
"""Path of the credentials on the Runtime API's port. Only SnapStart uses it."""
CREDENTIALS_TOKEN = "local"


@dataclass(frozen=True)
class Place:
    """Addresses and folders of one environment on this machine."""

    runtime_api: str
    """`host:port`, without a scheme."""
    log_stream: str
    path: str
    """Value of PATH. It begins with our own interpreter's folder, so that all processes have the same `python3`."""
    tmp: str
    """The processes' /tmp, as they see it. They get it as TMPDIR, and it is removed at the end."""
    log_socket: Path | None = None
    """Socket at which the workers of a runtime get a log stream each. Only on Managed Instances."""


def function_arn(name: str, qualifier: str | None = None) -> str:
    arn = f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:{name}"
    return f"{arn}:{qualifier}" if qualifier else arn


def extension_variables(settings: Settings, place: Place, image: Image | None = None) -> dict[str, str]:
    """Variables of an extension: without handler, task root, log group, log stream, and names that begin with `_`.

    AWS documents the names that are withheld; the code removes every key that begins with `_`. PATH, LANG and TMPDIR
    are not in the classic code's list; on a developer's machine an extension needs them to find its interpreter.
    `image`: the one in which it lies.
    """
    customer = {key: value for key, value in settings.environment.items() if not key.startswith("_")}
    return _shared(settings, place, image) | customer | _platform(settings, place)


def function_variables(function: Function, settings: Settings, place: Place) -> dict[str, str]:
    """Variables of the function's process. The host's own environment is not passed on."""
    image = function.image
    own = {
        "_HANDLER": function.handler,
        "LAMBDA_TASK_ROOT": str(function.task_root) if image is None else image.task_root,
        "LAMBDA_RUNTIME_DIR": "/var/runtime",
    }
    if settings.initialization != "snap-start":  # one process would go on in many log streams
        own["AWS_LAMBDA_LOG_GROUP_NAME"] = f"/aws/lambda/{settings.name}"
        own["AWS_LAMBDA_LOG_STREAM_NAME"] = place.log_stream
    if function.runtime:
        own["AWS_EXECUTION_ENV"] = f"AWS_Lambda_{function.runtime}"
    if settings.managed_instances:
        own["AWS_LAMBDA_MAX_CONCURRENCY"] = str(settings.managed_instances)  # extensions do not get it
    if place.log_socket:
        own["_LAMBDA_TELEMETRY_LOG_FD_PROVIDER_SOCKET"] = str(place.log_socket)
    if function.python and function.python != Path(
        sys.executable
    ):  # a handler that starts `python3` gets its own interpreter
        place = replace(place, path=f"{function.python.parent}{os.pathsep}{place.path}")
    return (
        _shared(settings, place, image)
        | dict(settings.environment)
        | dict(function.variables)
        | _platform(settings, place)
        | own
    )


def _shared(settings: Settings, place: Place, image: Image | None = None) -> dict[str, str]:
    """Variables that the user's own settings may replace."""
    here = {"PATH": place.path, "LANG": "C.UTF-8", "TZ": ":UTC", "TMPDIR": place.tmp}
    return {
        **(here if image is None else {"PATH": PATH, **image.variables}),
        **_credentials(settings, place),
        "AWS_REGION": REGION,
        "AWS_DEFAULT_REGION": REGION,
        "AWS_LAMBDA_LOG_FORMAT": settings.log_format,
    }


def _credentials(settings: Settings, place: Place) -> dict[str, str]:
    """Credentials without any rights: boto3 needs some to make a client."""
    if settings.initialization == "snap-start":
        return {
            "AWS_CONTAINER_CREDENTIALS_FULL_URI": f"http://{place.runtime_api}{CREDENTIALS_PATH}",
            "AWS_CONTAINER_AUTHORIZATION_TOKEN": CREDENTIALS_TOKEN,
        }
    return {
        "AWS_ACCESS_KEY_ID": LOCAL_CREDENTIALS["AccessKeyId"],
        "AWS_SECRET_ACCESS_KEY": LOCAL_CREDENTIALS["SecretAccessKey"],
        "AWS_SESSION_TOKEN": LOCAL_CREDENTIALS["Token"],
    }


def _platform(settings: Settings, place: Place) -> dict[str, str]:
    return {
        "AWS_LAMBDA_FUNCTION_NAME": settings.name,
        "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": str(settings.memory_mib),
        "AWS_LAMBDA_FUNCTION_VERSION": FUNCTION_VERSION,
        "AWS_LAMBDA_INITIALIZATION_TYPE": settings.initialization_type,
        "AWS_LAMBDA_RUNTIME_API": place.runtime_api,
    }
