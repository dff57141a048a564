"""Finds out from a function's configuration what keeps the sidecar from working, for `truemem doctor`. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from .diagnosis import Diagnosis
from .heap_settings import limits_of
from .log_diagnosis import HEAP_LIMIT, Log
from .output_diagnosis import of_variables

OTHER = {"x86_64": "arm64", "arm64": "x86_64"}


def of_configuration(configuration: Mapping[str, Any], log: Log) -> Iterator[Diagnosis]:
    """The findings on what Lambda's GetFunctionConfiguration returns. Where the log has the sidecar's lines, it is
    attached, whatever its layer is called."""
    attach = f"truemem attach {shlex.quote(str(configuration.get('FunctionName', 'NAME')))}"
    variables = configuration.get("Environment", {}).get("Variables", {})
    if "TRUEMEM_ENABLED" in variables and variables["TRUEMEM_ENABLED"].lower() == "false":
        fix, evidence = f"{attach} --set enabled=true", f"TRUEMEM_ENABLED={variables['TRUEMEM_ENABLED']}"
        yield Diagnosis("problem", "The sidecar is switched off: it measures nothing.", fix, evidence)
    yield from _attached(attach, configuration, log)
    if not log.heap_limit:  # which is of the heap itself: a command may set another limit than a variable
        memory_mib = configuration.get("MemorySize", 0)
        for limit in limits_of(variables, memory_mib):
            if said := limit.advice(memory_mib):
                yield Diagnosis("note", said, HEAP_LIMIT, limit.evidence)
    if "TRUEMEM_OUTPUT" in variables:
        yield from of_variables(variables)
    level = configuration.get("LoggingConfig", {}).get("ApplicationLogLevel")
    if level in ("WARN", "ERROR", "FATAL"):
        yield Diagnosis(
            "note",
            "The sidecar's lines pass the application log level; its first one, of INFO, does not.",
            evidence=f"ApplicationLogLevel: {level}",
        )


def _attached(attach: str, configuration: Mapping[str, Any], log: Log) -> Iterator[Diagnosis]:
    architecture = (configuration.get("Architectures") or ["x86_64"])[0]
    layers = [layer["Arn"] for layer in configuration.get("Layers", ())]
    own = next((arn for arn in layers if "truemem" in arn), None)
    if own is not None and (other := OTHER.get(architecture, "")) and other in own:
        yield Diagnosis("problem", f"The function is {architecture}, the layer's name says {other}.", attach, own)
    elif own is not None:
        yield Diagnosis("ok", "The layer is attached.", evidence=own)
    elif log.lines or log.attached:
        yield Diagnosis("ok", "The sidecar is attached: its log says so. No layer has truemem in its name.")
    elif configuration.get("PackageType") == "Image":
        text = "A container image without a line of the sidecar in this log: it may not be in the image."
        yield Diagnosis("note", text, "truemem layer-files DIR", "PackageType: Image")
    else:
        text = "No layer with truemem in its name is attached, and no line is in the log."
        yield Diagnosis("problem", text, attach, f"Layers: {', '.join(layers) or 'none'}")
