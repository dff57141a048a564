"""One run of the demo: the sample function under the local Lambda, with the sidecar attached."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ..lines.record import Record, parse_line
from ..local import Function, Invocation, LocalLambda, Settings
from ..local.configuration.sidecar import in_exact_mode
from ..support.bad_input import BadInput
from .verdict import Row
from .workload import MODELS, Call

ROOT = Path(__file__).parents[3]
SAMPLE = ROOT / "sample_function"
SIDECAR = ROOT / "extension" / "run"
PROBE = ROOT / "layer" / "python"
"""On the function's path, as Lambda has a layer's."""

Progress = Callable[[str, int, int], None]
"""What is being done, how much of it is done, of how much."""


@dataclass(frozen=True)
class Outcome:
    """What a run left."""

    rows: list[Row]
    lines: list[str]
    """The sidecar's EMF lines, as printed."""
    last_words: str
    """The last line that the sidecar printed at all."""
    notices: list[str]
    """What this machine does not permit."""
    seconds: float
    """First invocation to last."""


def run(calls: Sequence[Call], *, memory_mib: int, variables: Mapping[str, str], progress: Progress) -> Outcome:
    """Make the models, start everything, invoke, stop everything. Nothing is left behind. Raises BadInput.

    With MODEL_BUCKET among the variables no models are made: the function reads them from there, into an empty
    model store. AWS_ENDPOINT_URL_S3 says where there is, if not on AWS.
    """
    for needed in (SAMPLE / "app.py", SIDECAR):
        if not needed.exists():
            raise BadInput(f"no {needed.name} in {needed.parent}. Run the demo from a clone: make demo")
    with _empty_store() if "MODEL_BUCKET" in variables else _models(progress) as model_dir:
        function = Function.from_handler(f"{SAMPLE / 'app.py'}:handler")
        environment: Mapping[str, str] = {**variables, "MODEL_DIR": str(model_dir), "PYTHONPATH": str(PROBE)}
        function, environment = in_exact_mode(function, environment, SIDECAR) or (function, environment)
        settings = Settings(
            name="onnx-incident",
            memory_mib=memory_mib,
            timeout_s=60,
            environment=environment,
            extensions={"truemem": SIDECAR},
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
        printed = [(line, parse_line(line)) for line in local.extension_stdout("truemem")]
        said = [line.text for line in local.logs if line.source == "extension:truemem"]
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
    """One row for each invocation, by request id. The last one's REPORT comes too late for its record: from `marks`."""
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
    """A folder that the function can write to, whichever user it runs as, gone at the end."""
    with tempfile.TemporaryDirectory(prefix="truemem-demo-") as name:
        folder = Path(name)
        folder.chmod(0o1777)
        yield folder


@contextmanager
def _models(progress: Progress) -> Iterator[Path]:
    """All models in a folder that another user can read, made by the sample's own command, gone at the end."""
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
    """One row for `--json`, names as in the records; what is unknown is left out."""
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
    """The raw EMF lines, one JSON document a line. Raises OSError."""
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
