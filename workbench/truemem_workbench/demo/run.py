"""Runs the sample function once under the local Lambda, with the sidecar attached."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ..lines.record import Record, parse_line
from ..local import Function, Invocation, LocalLambda, Settings
from ..local.configuration.sidecar import NAME, in_exact_mode, sidecar
from ..support.bad_input import BadInput
from ..support.terminal import Progress
from .verdict import Row
from .workload import MODELS, Call

HERE = Path(__file__).parent
ROOT = HERE if (HERE / "sample_function").is_dir() else HERE.parents[2]
"""Folder of the sample: this one in a wheel (setup.py), or that of the checkout."""
SAMPLE = ROOT / "sample_function"
PROBE = ROOT / "layer" / "python"
"""Folder of the probe. The function has it on its path, as from a layer."""


@dataclass(frozen=True)
class Outcome:
    """The results of a run."""

    rows: list[Row]
    lines: list[str]
    """The sidecar's EMF lines, as printed."""
    last_words: str
    """The sidecar's last line of any kind."""
    notices: list[str]
    """What this machine does not permit."""
    seconds: float
    """Time from the first invocation to the last."""


def run(calls: Sequence[Call], *, memory_mib: int, variables: Mapping[str, str], progress: Progress) -> Outcome:
    """Make the models and run all calls. Nothing stays behind. Raises BadInput.

    With MODEL_BUCKET among the variables, the function reads the models from that bucket into an empty store.
    AWS_ENDPOINT_URL_S3 names another server than AWS.
    """
    with _empty_store() if "MODEL_BUCKET" in variables else _models(progress) as model_dir:
        function = Function.from_handler(f"{SAMPLE / 'app.py'}:handler")
        environment: Mapping[str, str] = {**variables, "MODEL_DIR": str(model_dir), "PYTHONPATH": str(PROBE)}
        function, environment = in_exact_mode(function, environment, sidecar()) or (function, environment)
        settings = Settings(
            name="onnx-incident",
            memory_mib=memory_mib,
            timeout_s=60,
            environment=environment,
            extensions={NAME: sidecar()},
        )
        progress("starting the environment", 0, len(calls))
        local = LocalLambda(function, settings)
        invocations: list[Invocation] = []
        with local:
            started = time.monotonic()
            for number, call in enumerate(calls, 1):
                invocations.append(local.invoke(call.payload()))
                progress("invoking", number, len(calls))
            seconds = time.monotonic() - started
        marks = {report.request_id: float(report.max_memory_used_mib) for report in local.reports}
        printed = [(line, parse_line(line)) for line in local.extension_stdout(NAME)]
        said = [line.text for line in local.logs if line.source == f"extension:{NAME}"]
    records = [record for _, record in printed if record]
    return Outcome(
        rows=join(calls, invocations, records, marks),
        lines=[line for line, record in printed if record],
        last_words=said[-1] if said else "nothing",
        notices=list(local.notices),
        seconds=seconds,
    )


def join(
    calls: Sequence[Call],
    invocations: Sequence[Invocation],
    records: Sequence[Record],
    marks: Mapping[str, float],
) -> list[Row]:
    """Join calls, answers and records by request id. The last REPORT comes after its record: from `marks`."""
    by_request = {record.request_id: record for record in records}
    rows = []
    for number, (call, invocation) in enumerate(zip(calls, invocations, strict=True), 1):
        record = by_request.get(invocation.request_id)
        mark = record.max_memory_used if record else None
        rows.append(
            Row(
                number=number,
                call=call,
                record=record,
                mark=marks.get(invocation.request_id) if mark is None else mark,
                error=_error(invocation),
            )
        )
    return rows


def _error(invocation: Invocation) -> str | None:
    if invocation.function_error is None:
        return None
    payload = invocation.payload
    named = payload.get("errorType") if isinstance(payload, dict) else None
    return str(named or invocation.function_error)


@contextmanager
def _empty_store() -> Iterator[Path]:
    """A temporary folder that the function can write to as any user."""
    with tempfile.TemporaryDirectory(prefix="truemem-demo-") as name:
        folder = Path(name)
        folder.chmod(0o1777)
        yield folder


@contextmanager
def _models(progress: Progress) -> Iterator[Path]:
    """A temporary folder with all models, made by the sample's own command. Other users can read it."""
    with tempfile.TemporaryDirectory(prefix="truemem-demo-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        progress("making the models", 0, MODELS)
        command = [sys.executable, str(SAMPLE / "models.py"), "make", name]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as maker:
            assert maker.stdout is not None
            assert maker.stderr is not None
            for made, _ in enumerate(maker.stdout, 1):
                progress("making the models", made, MODELS)
            words = maker.stderr.read().strip()
        if maker.returncode:
            raise BadInput(
                f"the models could not be made ({words or maker.returncode}): they need 241 MiB in {folder.parent}"
            )
        yield folder


def as_json(row: Row) -> dict[str, object]:
    """One row for `--json`, with the names of records. Unknown values are left out."""
    record = row.record
    members = {
        "invocation": row.number,
        **row.call.payload(),
        "peakRSS": row.peak,
        "peakLower": row.lower,
        "peakUpper": row.upper,
        "currentRSS": row.current,
        "maxMemoryUsed": row.mark,
        "method": record.method if record else None,
        "closedBy": record.closed_by if record else None,
        "raced": (record.raced or None) if record else None,
        "error": row.error,
    }
    return {name: value for name, value in members.items() if value is not None}


def save_lines(lines: Sequence[str], path: Path) -> None:
    """Write the raw EMF lines, one JSON document per line. Raises OSError."""
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
