"""Ctrl-C and SIGTERM: what was measured until then is printed and written, and nothing that was started is left."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import psutil

BOUND_S = 60


class EndedRun(NamedTuple):
    code: int
    out: str
    err: str


def ended(folder: Path, words: list[str], after: int, by: signal.Signals) -> EndedRun:
    """Run this command of a function, and end it when the function was invoked so many times."""
    ran = folder / "ran"
    ran.touch()
    ran.chmod(0o666)
    folder.chmod(0o755)
    code = f"import time\ndef handler(event, context):\n    open({str(ran)!r}, 'a').write('x')\n    time.sleep(0.01)\n"
    (folder / "app.py").write_text(code)
    command = [sys.executable, "-m", "truemem_workbench.commands", *words, f"{folder}/app.py:handler"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        bound = time.monotonic() + BOUND_S
        while ran.stat().st_size < after:
            assert process.poll() is None
            assert time.monotonic() < bound
            time.sleep(0.01)
        ours = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(by)
        out, err = process.communicate(timeout=BOUND_S)
    assert psutil.wait_procs(ours, timeout=BOUND_S)[1] == []
    return EndedRun(process.returncode, out, err)


def document_of(run: EndedRun, path: Path) -> Any:
    document = json.loads(run.out)
    assert json.loads(path.read_text()) == document
    return document


def test_check_is_undecided_and_says_why(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    run = ended(tmp_path, ["check", "--json", "--output", str(path)], 20, signal.SIGTERM)
    document = document_of(run, path)
    count = document["invocations"]
    assert run.code == 128 + signal.SIGTERM
    assert (document["outcome"], document["endedEarly"], count >= 19) == ("unknown", True, True)  # one was cut off
    assert f"it was ended early: the figures are of the {count} invocations until then" in document["notices"]


def test_explain_has_the_finding_and_what_was_traced(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    # after the plain run's 200 with at most 80 to warm up, and before the end of the traced one's
    run = ended(tmp_path, ["explain", "--json", "--output", str(path)], 300, signal.SIGINT)
    document = document_of(run, path)
    assert (run.code, document["endedEarly"]) == (130, True)
    assert document["finding"]["sentence"].startswith("No leak: ")
    assert "It was ended early" in " ".join(document["explanation"]["missing"])


def test_explain_of_init_has_the_memory(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    run = ended(tmp_path, ["explain", "--init", "--json", "--output", str(path)], 2, signal.SIGINT)
    document = document_of(run, path)
    assert (run.code, document["endedEarly"]) == (130, True)
    assert document["init"]["heldMiB"] > 1
    assert "It was ended early: the time is that of " in " ".join(document["init"]["missing"])


def test_local_run_has_its_summary_and_the_files(tmp_path: Path) -> None:
    path = tmp_path / "memory.html"
    words = ["local", "run", "--event", "{}", "--invocations", "500", "--json", "--output", str(path)]
    run = ended(tmp_path, words, 12, signal.SIGINT)
    summary = json.loads(run.out.splitlines()[-1])["summary"]
    count = summary["invocations"]
    assert (run.code, summary["endedEarly"], summary["failed"]) == (130, True, 0)
    assert 11 <= count < 500
    assert summary["sentences"][0].startswith("It was ended early, in invocation ")
    assert path.read_text().startswith("<!doctype html>")
    assert "Traceback" not in run.err
