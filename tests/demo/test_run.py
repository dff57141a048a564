"""The demo's command, for real: local Lambda, real onnxruntime, real sidecar. Small."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from truemem_workbench.demo.replay import run
from truemem_workbench.demo.workload import Call
from truemem_workbench.judge.heap import malloc_heaps
from truemem_workbench.printed.line import parse_event

from tests.report.conftest import Command, truemem
from tests.sample.s3_server import make_bucket, s3_server

__all__ = ["truemem"]


def demo(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "truemem_workbench.commands", "demo", *map(str, arguments)]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=100)


@pytest.fixture(scope="module")
def small_run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """Ten invocations: two arrivals, the spike as the third, seven more."""
    output = tmp_path_factory.mktemp("demo") / "output"
    done = demo("--invocations", "10", "--json", "--output", output)
    assert done.returncode == 0, done.stderr
    return output, json.loads(done.stdout)


def test_the_spike_is_one_invocations_and_the_mark_keeps_it(small_run: tuple[Path, dict[str, Any]]) -> None:
    _, document = small_run
    invocations = document["invocations"]

    assert [member["invocation"] for member in invocations] == list(range(1, 11))
    for member in invocations:
        assert "error" not in member
        assert member["peakLower"] <= member["peakRSS"] <= member.get("peakUpper", float("inf"))
    before, spike, *after = (member["peakRSS"] for member in invocations[1:])
    assert spike > before + 300
    assert all(peak < spike - 100 for peak in after)
    marks = [member["maxMemoryUsed"] for member in invocations]
    assert marks == sorted(marks)
    assert marks[-1] > before + 300


def test_picture_raw_lines_and_verdict_are_of_this_run(small_run: tuple[Path, dict[str, Any]]) -> None:
    output, document = small_run
    picture, lines = output / "memory.png", output / "truemem.emf.jsonl"

    assert document["files"] == [str(picture), str(lines)]
    assert picture.stat().st_size > 10_000
    records = [each for text in lines.read_text().splitlines() for each in parse_event(text)]
    assert [record.invocation for record in records] == list(range(1, 11))
    assert document["finding"]["cause"] == "undecided"  # of ten invocations
    assert len(malloc_heaps(records)) >= 10 - 1  # of the last one there is none: its process is gone with its page


@pytest.mark.nightly
def test_a_repair_is_run_with_the_same_calls(tmp_path: Path) -> None:
    repaired = ["--load-from", "path", "--cache-size", "8", "--pop-before-load"]
    done = demo("--invocations", "2", *repaired, "--repairs", "--json", "--output", tmp_path)
    assert done.returncode == 0, done.stderr
    repairs = json.loads(done.stdout)["repairs"]
    assert list(repairs) == ["blocks from 32 KiB mapped"]
    assert repairs["blocks from 32 KiB mapped"].keys() == {"currentRSS", "maxMemoryUsed", "inUse", "held"}


@pytest.mark.nightly
def test_the_table_and_the_verdict_are_printed_with_the_settings(tmp_path: Path) -> None:
    done = demo("--invocations", "2", "--load-from", "path", "--cache-size", "1", "--output", tmp_path)

    assert done.returncode == 0, done.stderr
    text = " ".join(done.stdout.split())
    assert "1024 MiB, models from path, cache of 1." in text
    assert "The calls: one batch of 4,000 rows (invocation 1); then 1 call for 1 model" in text
    assert "4,000" in text
    assert "- Undecided: 2 invocations can be judged, 128 are needed. Next: truemem demo" in text
    assert str(tmp_path / "memory.png") in done.stdout


def test_an_output_that_is_no_folder_is_one_clear_line(truemem: Command, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    said = f"truemem demo: cannot write to {file}: File exists. Try --output FOLDER\n"
    assert truemem("demo", "--output", file).refusal == said


@pytest.mark.nightly
def test_the_demo_runs_on_a_bucket_and_leaves_its_models_there() -> None:
    calls = [Call(3), Call(11), Call(3), Call(11)]
    with s3_server() as endpoint:
        s3 = make_bucket(endpoint, "demo")
        variables = {**s3.variables, "LOAD_FROM": "path"}
        outcome = run(calls, memory_mib=512, variables=variables, progress=lambda doing, done, of: None)
        assert s3.keys() == [f"models/model-{model:02}-24x256.onnx" for model in (3, 11)]
    assert [row.error for row in outcome.rows] == [None] * 4
    assert all(row.peak is not None and row.peak > 50 for row in outcome.rows), outcome.last_words
