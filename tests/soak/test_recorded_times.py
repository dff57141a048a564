"""When the invocations of a log began, in the forms of logs that people have."""

import json
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from truemem_workbench.soak.recorded_times import times_in
from truemem_workbench.support.bad_input import BadInput

from tests.report.written import BEGIN_MS, line

SECONDS = [1_795_288_667.5, 1_795_288_668.25, 1_795_288_700.0]
ISO = ["2026-11-21T19:17:47.500", "2026-11-21T19:17:48.250", "2026-11-21T19:18:20.000"]
STREAM = "2026/11/21/[$LATEST]8f73da1af051865902f94f95f6c5dbbf"
START = "START RequestId: 52fdfc07-2182-454f-963f-5f0f9a621d72 Version: $LATEST"
REPORT = "REPORT RequestId: 52fdfc07-2182-454f-963f-5f0f9a621d72\tDuration: 1.20 ms\tBilled Duration: 2 ms"
NOISE = ['{"message": "hello", "time": "2020-01-01T00:00:00Z"}', "a { brace", "", "nothing"]


def platform(kind: str, at: str) -> dict[str, object]:
    return {"time": f"{at}Z", "type": f"platform.{kind}", "record": {"requestId": "52fdfc07", "metrics": {}}}


def lines(*texts: str) -> str:
    return "".join(f"{text}\n{noise}\n" for text, noise in zip(texts, NOISE, strict=False))


def subscription(at_ms: float) -> str:
    events = [{"id": "1", "timestamp": int(at_ms), "message": START}, {"id": "2", "timestamp": 5, "message": "{}"}]
    return json.dumps({"messageType": "DATA_MESSAGE", "logStream": STREAM, "logEvents": events})


FORMS = {
    "aws logs tail": lines(*[f"{at}000+00:00 {STREAM} {START}" for at in ISO]),
    "aws logs tail, another zone": lines(*[f"{at.replace('T19', 'T20')}+01:00 {STREAM} {REPORT}" for at in ISO]),
    "sam logs": lines(*[f"{STREAM} {at}000 {REPORT}" for at in ISO]),
    "JSON format, start": lines(*[json.dumps(platform("start", at)) for at in ISO]),
    "JSON format, report": lines(*[json.dumps(platform("report", at)) for at in ISO]),
    "aws logs tail of JSON format": lines(
        *[f"{ISO[0]}+00:00 {STREAM} {json.dumps(platform('start', at))}" for at in ISO]
    ),
    "filter-log-events": json.dumps({"events": [{"timestamp": s * 1000, "message": START} for s in SECONDS]}, indent=1),
    "Insights, JSON": json.dumps([{"@timestamp": at.replace("T", " "), "@message": START} for at in ISO], indent=1),
    "subscription": "\n".join(subscription(1000 * second) for second in SECONDS),
    "Docker": "".join(json.dumps({"log": f"{START}\n", "stream": "stdout", "time": f"{at}000Z"}) + "\n" for at in ISO),
    "truemem events": "".join(json.dumps({"timestamp": f"{at}+00:00", "event": {"time": 1}}) + "\n" for at in ISO),
    "sidecar": lines(*[line("a", n, _aws={"Timestamp": round(1000 * s)}) for n, s in enumerate(SECONDS, 1)]),
}


@pytest.mark.parametrize("form", FORMS)
def test_each_form_has_its_times(form: str, tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text(FORMS[form])

    assert sorted(times_in(path)) == pytest.approx(SECONDS, abs=1e-3)


def test_a_time_without_a_zone_is_utc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As `sam logs` writes it."""
    path = tmp_path / "log"
    path.write_text(FORMS["sam logs"])
    monkeypatch.setenv("TZ", "America/St_Johns")
    time.tzset()
    try:
        assert sorted(times_in(path)) == pytest.approx(SECONDS, abs=1e-3)
    finally:
        monkeypatch.undo()
        time.tzset()


def test_of_one_invocation_one_line_counts(tmp_path: Path) -> None:
    """START, REPORT and the sidecar's line tell of the same one."""
    path = tmp_path / "log"
    texts = []
    for number, at in enumerate(ISO, 1):
        texts += [f"{at}+00:00 {STREAM} {START}", line("a", number), f"{at}+00:00 {STREAM} {REPORT}"]
    path.write_text("\n".join([*texts, f"{ISO[0]}+00:00 {STREAM} {START}"]))

    assert len(times_in(path)) == 4


def test_each_invocation_of_an_aggregated_line_counts(tmp_path: Path) -> None:
    path = tmp_path / "log"
    aggregate = {"invocations": 3, "requestId": "a b c", "invocation": [1, 2, 3], "startMs": [0, 250, 1000]}
    path.write_text(line("a", 3, PeakRSS=[1.0, 2.0, 3.0], _aws={"Timestamp": BEGIN_MS}, aggregate=aggregate))

    assert sorted(times_in(path)) == pytest.approx([BEGIN_MS / 1000 + after for after in (0, 0.25, 1)], abs=1e-3)


@pytest.mark.parametrize("text", ["", "hello\n" * 10, FORMS["sam logs"].splitlines()[0], f"{START}\n{START}\n"])
def test_a_log_without_times_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text(text)

    with pytest.raises(
        BadInput, match=r"and two are needed\. Try the output of truemem events NAME --times"
    ) as refused:
        times_in(path)
    assert str(refused.value).startswith(f"--like {path} has the times of {int('2026' in text)} invocations")


@given(st.lists(st.sampled_from([*NOISE, START, ISO[0], "{", '{"timestamp": ', '"time": 1e999}', "[", "]", "\ufeff"])))
def test_any_text_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, parts: list[str]) -> None:
    path = tmp_path_factory.getbasetemp() / "any.log"
    path.write_text(" ".join(parts) + "\n" + "\n".join(parts))
    try:
        times = times_in(path)
    except BadInput:
        return
    assert all(isinstance(each, float) for each in times)
