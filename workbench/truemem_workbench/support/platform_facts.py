"""What Lambda and CloudWatch Logs permit: the one table that every refusal, hint and help text reads. Pure.

Sources, which lead in this order: botocore's API models (1.44.8); cfn-lint's lifecycle of the runtimes (1.58); AWS's
guides. `tests/account/test_platform_facts.py` compares it at night with the first two, as they are installed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import date
from typing import Any, Literal, NamedTuple

AS_OF = "2026-11"
"""Month of the table. A value that it does not have is taken as newer, and is no reason to refuse."""

Language = Literal["python", "nodejs", "java", "dotnet", "ruby", "os-only", "custom"]
"""`os-only`: the function's own program is started (`provided`, go1.x). `custom`: a customer-managed runtime."""


class Runtime(NamedTuple):
    """A value of the API's enum Runtime. Dates are ISO 8601; None: none is announced."""

    language: Language
    deprecated: str | None = None
    updates_end: str | None = None
    """From this day on Lambda refuses to update such a function: no layer can be attached, changed or taken off."""


RUNTIMES: Mapping[str, Runtime] = {
    "python2.7": Runtime("python", "2021-07-15", "2022-05-30"),
    "python3.6": Runtime("python", "2022-07-18", "2022-08-29"),
    "python3.7": Runtime("python", "2023-12-04", "2027-03-03"),
    "python3.8": Runtime("python", "2024-10-14", "2027-03-03"),
    "python3.9": Runtime("python", "2025-12-15", "2027-03-03"),
    "python3.10": Runtime("python", "2026-10-31", "2027-03-03"),
    "python3.11": Runtime("python", "2027-06-30", "2027-08-31"),
    "python3.12": Runtime("python", "2028-10-31", "2029-01-10"),
    "python3.13": Runtime("python", "2029-06-30", "2029-08-31"),
    "python3.14": Runtime("python", "2029-06-30", "2029-08-31"),
    "python3.15": Runtime("python"),
    "nodejs": Runtime("nodejs", "2016-08-30", "2016-10-31"),
    "nodejs4.3": Runtime("nodejs", "2020-03-05", "2020-03-05"),
    "nodejs4.3-edge": Runtime("nodejs", "2020-03-05", "2019-04-30"),
    "nodejs6.10": Runtime("nodejs", "2019-08-12", "2019-08-12"),
    "nodejs8.10": Runtime("nodejs", "2020-03-06", "2020-03-06"),
    "nodejs10.x": Runtime("nodejs", "2021-07-30", "2022-02-14"),
    "nodejs12.x": Runtime("nodejs", "2023-03-31", "2023-04-30"),
    "nodejs14.x": Runtime("nodejs", "2023-12-04", "2027-03-03"),
    "nodejs16.x": Runtime("nodejs", "2024-06-12", "2027-03-03"),
    "nodejs18.x": Runtime("nodejs", "2025-09-01", "2027-03-03"),
    "nodejs20.x": Runtime("nodejs", "2026-04-30", "2027-03-03"),
    "nodejs22.x": Runtime("nodejs", "2027-04-30", "2027-07-01"),
    "nodejs24.x": Runtime("nodejs", "2028-04-30", "2028-07-01"),
    "nodejs26.x": Runtime("nodejs"),
    "java8": Runtime("java", "2024-01-08", "2027-03-03"),
    "java8.al2": Runtime("java", "2027-06-30", "2027-08-31"),
    "java8.al2023": Runtime("java"),
    "java11": Runtime("java", "2027-06-30", "2027-08-31"),
    "java11.al2023": Runtime("java"),
    "java17": Runtime("java", "2027-06-30", "2027-08-31"),
    "java17.al2023": Runtime("java"),
    "java21": Runtime("java", "2029-06-30", "2029-08-31"),
    "java25": Runtime("java", "2029-06-30", "2029-08-31"),
    "dotnetcore1.0": Runtime("dotnet", "2019-06-27", "2019-07-30"),
    "dotnetcore2.0": Runtime("dotnet", "2019-05-30", "2019-05-30"),
    "dotnetcore2.1": Runtime("dotnet", "2022-01-05", "2022-04-13"),
    "dotnetcore3.1": Runtime("dotnet", "2023-04-03", "2023-05-03"),
    "dotnet6": Runtime("dotnet", "2024-12-20", "2027-03-03"),
    "dotnet8": Runtime("dotnet", "2026-11-10", "2027-03-03"),
    "dotnet10": Runtime("dotnet", "2028-11-14", "2029-01-15"),
    "ruby2.5": Runtime("ruby", "2021-07-30", "2022-03-31"),
    "ruby2.7": Runtime("ruby", "2023-12-07", "2027-03-03"),
    "ruby3.2": Runtime("ruby", "2026-03-31", "2027-03-03"),
    "ruby3.3": Runtime("ruby", "2027-03-31", "2027-05-31"),
    "ruby3.4": Runtime("ruby", "2028-03-31", "2028-05-31"),
    "ruby4.0": Runtime("ruby", "2029-03-31", "2029-05-31"),
    "go1.x": Runtime("os-only", "2024-01-08", "2027-03-03"),
    "provided": Runtime("os-only", "2024-01-08", "2027-03-03"),
    "provided.al2": Runtime("os-only", "2026-07-31", "2027-03-03"),
    "provided.al2023": Runtime("os-only", "2029-06-30", "2029-08-31"),
    "custom": Runtime("custom"),
}
_BEGINS: Mapping[str, Language] = {
    "python": "python", "nodejs": "nodejs", "java": "java", "dotnet": "dotnet", "ruby": "ruby", "go": "os-only",
    "provided": "os-only", "custom": "custom",
}  # fmt: skip


def language(runtime: str) -> Language | None:
    """The language of a runtime, also of one that is newer than the table; None if its name begins with none."""
    known = RUNTIMES.get(runtime)
    name = re.match(r"[a-z]*", runtime)
    return known.language if known else _BEGINS.get(name[0] if name else "")


def version(runtime: str) -> tuple[int, ...]:
    """`(3, 13)` of python3.13, `(24,)` of nodejs24.x, `(17,)` of java17.al2023; empty if the name has none."""
    found = re.search(r"\d+(?:\.\d+)?", runtime)
    return tuple(map(int, found[0].split("."))) if found else ()


def runtimes(of: Language, least: tuple[int, ...] = ()) -> list[str]:
    """The runtimes of a language in the table from this version on, oldest first."""
    return sorted(
        (name for name, each in RUNTIMES.items() if each.language == of and version(name) >= least), key=version
    )


def deprecated(runtime: str, today: date) -> Runtime | None:
    """The runtime's row if it is deprecated today."""
    row = RUNTIMES.get(runtime)
    return row if row and row.deprecated and date.fromisoformat(row.deprecated) <= today else None


def successor(runtime: str, today: date) -> str:
    """The newest runtime of the same language whose end is announced and not near: neither deprecated nor a preview."""
    ends = ((name, RUNTIMES[name].deprecated or "") for name in runtimes(RUNTIMES[runtime].language))
    return max((version(name), name) for name, end in ends if end > today.isoformat())[1]


LEAST_MIB = 128
MOST_MIB = 10_240
"""Largest memory size on demand (Lambda quotas)."""
NEW_ACCOUNT_MIB = 3_008
"""The most that a new account has, until AWS raises it."""
MOST_MANAGED_MIB = 32_768
"""Largest memory size on Managed Instances: the maximum of the API's MemorySize."""
LEAST_MANAGED_MIB = 2_048
"""Least memory size on Managed Instances (developer guide, lambda-managed-instances-best-practices)."""
AT_ONCE = "PerExecutionEnvironmentMaxConcurrency"
"""A function's configuration, and a template's: how many requests an environment of Managed Instances has at once."""
MOST_AT_ONCE = 1_600
"""Most requests at once in an environment there (API, PerExecutionEnvironmentMaxConcurrency)."""
GIB_PER_VCPU = (2.0, 4.0, 8.0)
"""Memory for each vCPU there (SAM, CapacityProviderConfig)."""
USUAL_GIB_PER_VCPU = 4.0
"""If the function does not say (AWS's skill aws-lambda-managed-instances, April 2026: configuration-guide)."""
AT_ONCE_PER_VCPU: Mapping[str, int] = {"python": 16, "nodejs": 64, "java": 32, "dotnet": 32}
"""Requests at once for each vCPU if the function does not say (developer guide, lambda-managed-instances-*-runtime)."""
NODE_THREADS_PER_VCPU = 8
"""Worker threads of AWS's client for Node.js (aws-lambda-ric 4.0.2, getWorkerCount); Python has a process for each
request (awslambdaric 4.2.2, MultiConcurrentRunner)."""
TMP_MIB, MOST_TMP_MIB, MOST_MANAGED_TMP_MIB = 512, 10_240, 32_768
"""Size of /tmp unless more is bought; the most on demand, and on Managed Instances (Lambda quotas)."""
MOST_TIMEOUT_S = 1_800
"""Longest timeout on demand, and of a synchronous call: CreateFunction's text. The page of the quotas still says
900."""
LONGEST_ANSWER_S = MOST_TIMEOUT_S + 30
"""Longest wait for the answer to a synchronous call. Asked again, the function would do its work again."""
MOST_MANAGED_TIMEOUT_S = 5_400
"""Longest timeout on Managed Instances, asynchronous or from an event source: the maximum of the API's Timeout."""
MOST_LAYERS = 5
MOST_EXTENSIONS = 10
MOST_UNZIPPED_MB = 250
"""Code and layers of a function, unzipped (Lambda quotas); also where Lambda reads them from a bucket of your own."""
MOST_VARIABLE_BYTES = 4_096
"""All environment variables of a function (Lambda quotas)."""
ARCHITECTURES = ("x86_64", "arm64")
PACKAGE_TYPES = ("Zip", "Image")
LOG_FORMATS = ("Text", "JSON")
APPLICATION_LOG_LEVELS = ("TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL")
SYSTEM_LOG_LEVELS = ("DEBUG", "INFO", "WARN")
TENANT_ISOLATION_MODES = ("PER_TENANT",)


class LogClass(NamedTuple):
    """A class of log groups (CloudWatch Logs, API LogGroup). None: AWS does not say it."""

    name: str
    metrics: bool | None
    """CloudWatch makes metrics of lines in the embedded metric format."""
    queries: bool | None
    """Logs Insights reads them."""
    days: int | None = None
    """How long lines are kept, if that cannot be chosen."""


LOG_CLASSES: Mapping[str, LogClass] = {
    "STANDARD": LogClass("Standard", metrics=True, queries=True),
    "INFREQUENT_ACCESS": LogClass("Infrequent Access", metrics=False, queries=True),
    "ESSENTIALS": LogClass("Essentials", metrics=None, queries=None),
    "DELIVERY": LogClass("Delivery", metrics=False, queries=False, days=1),
}


def newer_values(configuration: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Member and value, such as `("Runtime", "python3.16")`, of what GetFunctionConfiguration returns and the table
    does not have."""
    logging, tenancy = (configuration.get(name) or {} for name in ("LoggingConfig", "TenancyConfig"))
    values = (
        ("Runtime", configuration.get("Runtime"), RUNTIMES),
        ("PackageType", configuration.get("PackageType"), PACKAGE_TYPES),
        *(("Architecture", each, ARCHITECTURES) for each in configuration.get("Architectures") or ()),
        ("LogFormat", logging.get("LogFormat"), LOG_FORMATS),
        ("ApplicationLogLevel", logging.get("ApplicationLogLevel"), APPLICATION_LOG_LEVELS),
        ("SystemLogLevel", logging.get("SystemLogLevel"), SYSTEM_LOG_LEVELS),
        ("TenantIsolationMode", tenancy.get("TenantIsolationMode"), TENANT_ISOLATION_MODES),
    )
    yield from ((member, str(value)) for member, value, known in values if value and value not in known)


def newer_text(member: str, value: str) -> str:
    """What is to be said of a value that is newer than the table, without the full stop."""
    return f"Its {member} {value} is newer than what this truemem knows of Lambda ({AS_OF})"
