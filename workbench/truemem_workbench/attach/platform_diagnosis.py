"""What a function's settings on the platform mean for its records, for `truemem doctor` and `truemem attach`. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from datetime import date
from typing import Any

from truemem.config import EMF, Config

from ..support import docs_link, web_adapter
from ..support.diagnosis import Diagnosis
from ..support.platform_facts import LOG_CLASSES, RUNTIMES, deprecated, language, newer_text, newer_values, successor
from ..support.terminal import counted

WRAPPER = "AWS_LAMBDA_EXEC_WRAPPER"
UPGRADE = "pip install --upgrade truemem"


def diagnose_settings(configuration: Mapping[str, Any], today: date) -> Iterator[Diagnosis]:
    """What matters before the layer is attached as well as after."""
    for member, value in newer_values(configuration):
        yield Diagnosis("note", f"{newer_text(member, value)}.", UPGRADE)
    runtime = configuration.get("Runtime") or ""
    row = deprecated(runtime, today)
    if row is not None and row.updates_end is not None:
        begin = "since" if row.updates_end <= today.isoformat() else "from"
        yield Diagnosis(
            "note",
            f"Its runtime is deprecated: {begin} {row.updates_end} Lambda refuses updates, those of layers too.",
            _command(configuration, "update-function-configuration", f"--runtime {successor(runtime, today)}"),
            f"Runtime: {runtime}, deprecated on {RUNTIMES[runtime].deprecated}",
        )
    level = _in(configuration, "LoggingConfig", "ApplicationLogLevel")
    if level in ("WARN", "ERROR", "FATAL"):
        dropped = "the sidecar's first line" if level == "WARN" else "what the sidecar says of itself"
        yield Diagnosis(
            "note",
            f"Its log level is {level}: {dropped} is dropped, its records are not.",
            _logging(configuration, ApplicationLogLevel="INFO"),
            f"ApplicationLogLevel: {level}",
        )
    if configuration.get("DurableConfig"):
        yield Diagnosis(
            "ok",
            "It is durable: an execution stays with its version, so the layer counts for those that begin later.",
            f"aws lambda publish-version --function-name {_name(configuration)}",
            "DurableConfig",
        )


def diagnose_records(configuration: Mapping[str, Any], *, is_exact: bool = False) -> Iterator[Diagnosis]:
    """What its log and its records do not show, or show in another way. `is_exact`: some records are of exact mode."""
    runtime = configuration.get("Runtime") or ""
    variables = _in(configuration, "Environment", "Variables") or {}
    layers = [each.get("Arn") or "" for each in configuration.get("Layers") or ()]
    wrapper = variables.get(WRAPPER)
    if web_adapter.is_there(layers, variables) and not is_exact:
        yield _behind_adapter(configuration, variables)
    elif wrapper and language(runtime) in ("os-only", "custom") and not is_exact:
        yield Diagnosis(
            "note",
            f"Lambda need not start a wrapper in {runtime}, and nothing else did: this is the default mode.",
            f"let its bootstrap start the runtime through {wrapper} ({docs_link.command('attach#4-exact-mode')})",
            f"{WRAPPER}: {wrapper}",
        )
    level = _in(configuration, "LoggingConfig", "SystemLogLevel")
    if level == "WARN":
        yield Diagnosis(
            "note",
            "Its system log level is WARN: the log has REPORT of failures alone. Records have all of it.",
            _logging(configuration, SystemLogLevel="INFO"),
            f"SystemLogLevel: {level}",
        )
    mode = _in(configuration, "TenancyConfig", "TenantIsolationMode")
    if mode is not None:
        yield Diagnosis(
            "ok",
            "Tenant isolation: an environment serves one tenant, so some may serve too few invocations for a verdict.",
            f"truemem report {_name(configuration)} --by tenantId",
            f"TenantIsolationMode: {mode}",
        )
    if configuration.get("DurableConfig"):
        yield Diagnosis(
            "ok",
            "Each replay is an invocation with a record of its own. It loads more the longer its execution is: that may"
            " look like a leak until another execution begins.",
            f"truemem report {_name(configuration)} --by executionArn",
            "DurableConfig",
        )


def _behind_adapter(configuration: Mapping[str, Any], variables: Mapping[str, str]) -> Diagnosis:
    attach = f"truemem attach {_name(configuration)}"
    if web_adapter.is_ours(variables):
        return Diagnosis(
            "problem",
            "Its Lambda Web Adapter asks the sidecar for events, and no record is of exact mode: where the sidecar does"
            " not listen there, no event is served.",
            f"{attach} --no-exact, or add the layer",
            f"{web_adapter.PROXY}: {variables[web_adapter.PROXY]}",
        )
    text = "It runs behind the Lambda Web Adapter, where no wrapper makes exact mode: this is the default mode."
    return Diagnosis("note", text, f"{attach} --exact ({docs_link.command('web-adapter')})")


def log_class_text(named: str, variables: Mapping[str, str]) -> str:
    """What CloudWatch does not do with the lines of a function with these variables, in a log group of this class,
    without the full stop. Empty: nothing that they need."""
    known = LOG_CLASSES.get(named)
    if known is None:
        return newer_text("log class", named)
    config = Config({name.encode(): value.encode("utf-8", "replace") for name, value in variables.items()})
    lacks = []
    if EMF in config.outputs and known.metrics is False:
        lacks.append("no metrics are made of its lines")
    elif EMF in config.outputs and known.metrics is None:
        lacks.append("AWS does not say whether metrics are made of its lines")
    if config.prints and known.queries is False:
        lacks.append("Logs Insights reads none of them")
    if lacks and known.days is not None:
        lacks.append(f"they are kept for {counted(known.days, 'day')}")
    return f"Its log group is of the class {known.name}: {', '.join(lacks)}" if lacks else ""


def diagnose_log_class(configuration: Mapping[str, Any], group: str, named: str) -> Iterator[Diagnosis]:
    """The finding on the class of the function's log group, a value of CloudWatch Logs' enum LogGroupClass."""
    text = log_class_text(named, _in(configuration, "Environment", "Variables") or {})
    known = LOG_CLASSES.get(named)
    if not text:
        return
    if known is None:
        yield Diagnosis("note", f"{text}.", UPGRADE, group)
    elif known.metrics is None:
        yield Diagnosis("note", f"{text}.", f"truemem metrics {_name(configuration)}", group)
    else:
        other = f"{group}-standard"
        fix = (
            "A class cannot be changed. TRUEMEM_OUTPUT=otlp needs no log; or another log group: aws logs"
            f" create-log-group --log-group-name {shlex.quote(other)} && {_logging(configuration, LogGroup=other)}"
        )
        yield Diagnosis("problem", f"{text}.", fix, group)


def diagnose_scaling(configuration: Mapping[str, Any], scaling: Mapping[str, Any]) -> Iterator[Diagnosis]:
    """The finding on the number of environments on Managed Instances, from GetFunctionScalingConfig's answer."""
    applied = scaling.get("AppliedFunctionScalingConfig") or {}
    least, most = applied.get("MinExecutionEnvironments"), applied.get("MaxExecutionEnvironments")
    evidence = ", ".join(f"{name}: {value}" for name, value in applied.items())
    if most == 0:
        options = (
            f"--qualifier {shlex.quote(qualifier_of(configuration))}"
            " --function-scaling-config MinExecutionEnvironments=1,MaxExecutionEnvironments=3"
        )
        command = _command(configuration, "put-function-scaling-config", options)
        text = "Its scaling configuration permits no environment: it takes no invocations."
        yield Diagnosis("problem", text, command, evidence)
    elif least is not None:
        text = f"Managed Instances: {counted(least, 'environment')} at least. One that serves nothing prints nothing."
        yield Diagnosis("ok", text, evidence=evidence)


def command_to_invoke(configuration: Mapping[str, Any]) -> str:
    """What to type so that the function has a record. Lambda wants a tenant's id, or a version of a durable one."""
    if configuration.get("TenancyConfig"):
        return _command(configuration, "invoke", "--tenant-id ID answer.json")
    version = ":$LATEST" if configuration.get("DurableConfig") else ""
    return f"truemem doctor {shlex.quote(configuration['FunctionName'] + version)} --follow --invoke"


def qualifier_of(configuration: Mapping[str, Any]) -> str:
    """The version that GetFunctionScalingConfig is asked for: where none is named, the latest published one."""
    version = str(configuration.get("Version") or "$LATEST")
    return "$LATEST.PUBLISHED" if version == "$LATEST" else version


def _in(configuration: Mapping[str, Any], group: str, member: str) -> Any:
    return (configuration.get(group) or {}).get(member)


def _name(configuration: Mapping[str, Any]) -> str:
    return shlex.quote(str(configuration.get("FunctionName", "NAME")))


def _command(configuration: Mapping[str, Any], operation: str, options: str) -> str:
    return f"aws lambda {operation} --function-name {_name(configuration)} {options}"


def _logging(configuration: Mapping[str, Any], **changed: str) -> str:
    """The command that changes these members of LoggingConfig and keeps the others."""
    members = {**(configuration.get("LoggingConfig") or {}), **changed}
    given = shlex.quote(",".join(f"{name}={value}" for name, value in members.items()))
    return _command(configuration, "update-function-configuration", f"--logging-config {given}")
