"""Compares the table of the platform with AWS's API models and cfn-lint's lifecycle of the runtimes, as installed.

    python -m testing.platform_models

prints a line for each difference, and exits with 1 if there is one. A difference is no fault of the code: read what AWS
says about it, correct the table and its month, and look for what else the new value concerns.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from importlib.resources import files
from typing import Any

from botocore.loaders import Loader
from truemem_workbench.support import platform_facts as facts

MEMBERS = {
    "Architectures", "AcceleratorConfig", "CapacityProviderConfig", "CodeSha256", "CodeSize", "ConfigSha256",
    "DeadLetterConfig", "Description", "DurableConfig", "Environment", "EphemeralStorage", "FileSystemConfigs",
    "FunctionArn", "FunctionName", "Handler", "ImageConfigResponse", "KMSKeyArn", "LastModified", "LastUpdateStatus",
    "LastUpdateStatusReason", "LastUpdateStatusReasonCode", "Layers", "LoggingConfig", "MasterArn", "MemorySize",
    "PackageType", "RevisionId", "Role", "Runtime", "RuntimeConfig", "RuntimeVersionConfig", "SigningJobArn",
    "SigningProfileVersionArn", "SnapStart", "State", "StateReason", "StateReasonCode", "TenancyConfig", "Timeout",
    "TracingConfig", "Version", "VpcConfig",
}  # fmt: skip
"""Members of FunctionConfiguration of which it is known whether they concern truemem. A new one may be a feature."""

ENUMS = (
    ("lambda", "Runtime", facts.RUNTIMES),
    ("lambda", "Architecture", facts.ARCHITECTURES),
    ("lambda", "PackageType", facts.PACKAGE_TYPES),
    ("lambda", "LogFormat", facts.LOG_FORMATS),
    ("lambda", "ApplicationLogLevel", facts.APPLICATION_LOG_LEVELS),
    ("lambda", "SystemLogLevel", facts.SYSTEM_LOG_LEVELS),
    ("lambda", "TenantIsolationMode", facts.TENANT_ISOLATION_MODES),
    ("logs", "LogGroupClass", facts.LOG_CLASSES),
)
BOUNDS = (
    ("Timeout", "max", facts.MOST_MANAGED_TIMEOUT_S),
    ("MemorySize", "max", facts.MOST_MANAGED_MIB),
    ("MemorySize", "min", facts.LEAST_MIB),
)


def differences() -> Iterator[str]:
    """A sentence for each fact of the table that the models or the lifecycle contradict."""
    loader = Loader()
    shapes = {name: loader.load_service_model(name, "service-2")["shapes"] for name in ("lambda", "logs")}
    for service, shape, table in ENUMS:
        yield from _sets(f"enum {shape}", set(shapes[service][shape]["enum"]), set(table))
    yield from _sets(
        "members of FunctionConfiguration", set(shapes["lambda"]["FunctionConfiguration"]["members"]), MEMBERS
    )
    for shape, bound, ours in BOUNDS:
        if (theirs := shapes["lambda"][shape][bound]) != ours:
            yield f"{shape}, {bound}: the model has {theirs}, the table {ours}"
    yield from _timeout_on_demand(shapes["lambda"]["CreateFunctionRequest"]["members"]["Timeout"]["documentation"])
    yield from _lifecycle(json.loads((files("cfnlint.data.AdditionalSpecs") / "LmbdRuntimeLifecycle.json").read_text()))


def _sets(what: str, theirs: set[str], ours: set[str]) -> Iterator[str]:
    yield from (f"{what}: the table has no {each}" for each in sorted(theirs - ours))
    yield from (f"{what}: only the table has {each}" for each in sorted(ours - theirs))


def _timeout_on_demand(text: str) -> Iterator[str]:
    """The model has no bound of its own for it. An older model may say less, so only more is a difference."""
    found = re.search(r"maximum allowed value is ([\d,]+) seconds", text)
    if found is None:
        yield "Timeout: CreateFunction's text does not say the maximum on demand any more"
    elif (theirs := int(found[1].replace(",", ""))) > facts.MOST_TIMEOUT_S:
        yield f"Timeout on demand: CreateFunction's text has {theirs}, the table {facts.MOST_TIMEOUT_S}"


def _lifecycle(rows: dict[str, dict[str, Any]]) -> Iterator[str]:
    for name in sorted(rows.keys() & facts.RUNTIMES.keys()):
        ours, row = facts.RUNTIMES[name], rows[name]
        theirs = (row.get("deprecated") or None, row.get("update-block") or None)
        if theirs != (ours.deprecated, ours.updates_end):
            yield f"{name}: cfn-lint has {theirs}, the table {(ours.deprecated, ours.updates_end)}"


if __name__ == "__main__":
    found = [*differences()]
    print("\n".join(found) or f"no difference to the table of {facts.AS_OF}")
    sys.exit(bool(found))
