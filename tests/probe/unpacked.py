"""The probe's functions as Lambda has them: code and layers from the zips that are uploaded."""

import io
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config
from truemem_workbench.local import Function, LocalLambda, LogLine, Settings
from truemem_workbench.local.processes.tmp import elsewhere

from research.probe import functions
from research.probe.functions import ProbeFunction
from testing.environment import SIDECAR


def unzip(content: bytes, folder: Path) -> None:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        for entry in archive.infolist():
            path = Path(archive.extract(entry, folder))
            path.chmod(entry.external_attr >> 16 & 0o777)
            path.parent.chmod(0o755)


@contextmanager
def unpacked(function: ProbeFunction) -> Iterator[Path]:
    """A folder with the function's code in `task` and its layer in `opt`; the ordinary user of Lambda can read it, and
    it is no mount of theirs, which the document would have."""
    with tempfile.TemporaryDirectory(dir=elsewhere()) as name:
        folder = Path(name)
        folder.chmod(0o755)
        unzip(functions.code_zip(function), folder / "task")
        unzip(functions.layer_zip(function.layer), folder / "opt")
        yield folder


@contextmanager
def served(name: str, function: ProbeFunction, log: list[LogLine] | None = None) -> Iterator[LocalLambda]:
    """A function of the probe under the local Lambda, with the sidecar and its own layer: always run by Python."""
    with unpacked(function) as folder:
        code = Function.from_handler(f"{folder / 'task' / function.files[0]}:handler")
        code = replace(code, runtime=function.runtime, command=(*code.command[:-1], function.handler))
        own = folder / "opt" / "extensions"
        extensions = [SIDECAR, *(own.iterdir() if own.is_dir() else [])]
        settings = Settings(name=name, memory_mib=512, extensions=extensions, environment=here(function, folder))
        lines = [] if log is None else log
        with LocalLambda(code, settings, lines.append) as local:
            yield local


def here(function: ProbeFunction, folder: Path) -> Mapping[str, str]:
    """Its variables, with the folder in place of /opt."""
    return {name: value.replace("/opt/", f"{folder}/opt/") for name, value in function.variables.items()}


def client_of(local: LocalLambda) -> Any:
    """boto3's, of the local Lambda: the same that asks the service."""
    session = boto3.session.Session("testing", "testing", region_name="eu-central-1")
    return session.client("lambda", endpoint_url=local.endpoint, config=Config(retries={"total_max_attempts": 1}))
