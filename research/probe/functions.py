"""The functions that the probe deploys for each architecture, and their zips."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

SOURCES = Path(__file__).with_name("function")
RUNTIME = "python3.13"
"""Runtime of the functions that answer most of the questions."""
RUNTIMES = {
    "python3.13": ("simple.handler", "simple.py"),
    "nodejs22.x": ("index.handler", "index.js"),
    "ruby3.4": ("app.handler", "app.rb"),
    "java21": ("none.Handler::handle", "simple.py"),
    "dotnet8": ("None::None.Handler::Handle", "simple.py"),
}
"""Managed runtimes, with handler and source. The last two would need compiled code: they have none, so their init
fails. That the wrapper was started is in the log all the same."""
EXTENSION, WRAPPER = "extension", "wrapper"
LAYERS = {
    EXTENSION: {"extensions/truemem-probe": "extension.py"},
    WRAPPER: {"truemem-probe/wrapper": "wrapper.sh", "truemem-probe/preload.cjs": "preload.cjs"},
}
"""The probe's own layers: files by their path below /opt. They are for both architectures."""


@dataclass(frozen=True)
class ProbeFunction:
    """One function. Its name in the account is that of the run, then the architecture, then `name`."""

    name: str
    runtime: str
    handler: str
    files: tuple[str, ...]
    layer: str
    """The probe's layer that it has besides truemem's."""
    variables: Mapping[str, str] = field(default_factory=dict, hash=False)
    filtered: bool = False
    """True: JSON log, in which Lambda keeps application lines from WARN on."""
    settings: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """Members of CreateFunction in place of the usual ones. None: left out."""

    @property
    def version(self) -> str | None:
        """The published version that is asked, if it is not $LATEST."""
        return "1" if self.settings.get("Publish") else None


NAMESPACE = {"TRUEMEM_NAMESPACE": "truemem-probe"}
"""CloudWatch makes metrics of the sidecar's lines, and cannot delete them: they must not be among the user's own."""

MEASURE = ProbeFunction(
    "measure",
    RUNTIME,
    "lambda_function.handler",
    ("lambda_function.py", "steps.py"),
    EXTENSION,
    NAMESPACE,
)
FILTER = ProbeFunction(
    "filter", RUNTIME, "simple.handler", ("simple.py",), EXTENSION, {"PROBE_LINES": "1", **NAMESPACE}, filtered=True
)


def _wrapped(runtime: str, handler: str, source: str) -> ProbeFunction:
    variables = {**NAMESPACE, "AWS_LAMBDA_EXEC_WRAPPER": "/opt/truemem-probe/wrapper"}
    if runtime.startswith("nodejs"):
        variables["NODE_OPTIONS"] = "--require /opt/truemem-probe/preload.cjs"
    return ProbeFunction(runtime.replace(".", "-"), runtime, handler, (source,), WRAPPER, variables)


WRAPPED = {runtime: _wrapped(runtime, *code) for runtime, code in RUNTIMES.items()}
"""A function of each managed runtime that is started through an exec wrapper."""
SNAP_START = replace(
    MEASURE, name="snap-start", settings={"SnapStart": {"ApplyOn": "PublishedVersions"}, "Publish": True}
)
USERS = IMAGE, MANAGED, GPU = tuple(replace(MEASURE, name=name) for name in ("image", "managed-instances", "gpu"))
"""Kinds of environments that need something of the user's: see `of_the_user`."""
ALWAYS = (SNAP_START, MEASURE, FILTER, *WRAPPED.values())
"""Functions of each run, those that take longest first."""
ALL = (*ALWAYS, *USERS)
MANAGED_MIB = 2048
"""The least memory of a function on Managed Instances."""


def of_the_user(image: str | None, provider: str | None, gpu_gib: int | None) -> list[ProbeFunction]:
    """Functions of the user's image (research/README.md), on the Managed Instances of a capacity provider, and of both
    with a GPU of so much memory."""
    no_zip: dict[str, Any] = dict.fromkeys(("Runtime", "Handler", "Layers"))
    of_image = {"PackageType": "Image", "Code": {"ImageUri": image}, **no_zip}
    instances = {"CapacityProviderArn": provider, "PerExecutionEnvironmentMaxConcurrency": 2}
    providing = {"CapacityProviderConfig": {"LambdaManagedInstancesCapacityProviderConfig": instances}}
    managed = {**providing, "MemorySize": MANAGED_MIB, "Publish": True}
    gpu = {**of_image, **managed, "AcceleratorConfig": {"AcceleratorMemorySize": gpu_gib}}
    kinds = ((IMAGE, image, of_image), (MANAGED, provider, managed), (GPU, gpu_gib, gpu))
    return [replace(kind, settings=settings) for kind, is_asked, settings in kinds if is_asked]


def log_settings(function: ProbeFunction) -> dict[str, str]:
    """How the function logs, as in Lambda's LoggingConfig."""
    if not function.filtered:
        return {"LogFormat": "Text"}
    return {"LogFormat": "JSON", "ApplicationLogLevel": "WARN", "SystemLogLevel": "INFO"}


def code_zip(function: ProbeFunction) -> bytes:
    return _zip((name, SOURCES / name) for name in function.files)


def layer_zip(name: str) -> bytes:
    """Zip of one of LAYERS."""
    return _zip((path, SOURCES / source) for path, source in LAYERS[name].items())


def _zip(files: Iterable[tuple[str, Path]]) -> bytes:
    """A zip whose files everyone may read and execute: pip keeps no modes."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, path in files:
            entry = zipfile.ZipInfo(name)
            entry.external_attr = 0o100755 << 16
            archive.writestr(entry, path.read_bytes(), zipfile.ZIP_DEFLATED)
    return content.getvalue()
