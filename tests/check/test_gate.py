"""The gate at work: real functions under the local Lambda, with the sidecar attached."""

import json
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from truemem_workbench.local.configuration.layer import extensions_in
from truemem_workbench.runs.here import Run
from truemem_workbench.target.resolve import resolve

from testing.environment import EXTENSIONS
from tests.attach.pages import DOCS
from tests.check.conftest import FUNCTIONS, LEAKY, STEADY, Check

SAMPLE = Path(__file__).parents[2] / "sample_function" / "app.py"
BOOTSTRAP = Path(__file__).parents[1] / "local" / "functions" / "bootstrap"


@pytest.mark.parametrize("limits", [["--invocations", 130], ["--invocations", 10, "--max-drift", 4]])
def test_a_leak_of_8_kib_per_invocation_fails_within_300(
    invoke_check: Check, tmp_path: Path, limits: list[object]
) -> None:
    most = ["--warm-up", 100, "--most", 200]
    done = invoke_check(LEAKY, *most, *limits, "--json", "--output", tmp_path / "report.xml")
    assert done.exit_code == 1, done.output
    document = json.loads(done.stdout)
    assert document["invocations"] <= 300
    assert document["finding"]["cause"] == "leak"
    assert document["finding"]["perInvocationKiB"] == pytest.approx(8.5, abs=1)  # with the bytearray's own
    assert 'failures="1"' in (tmp_path / "report.xml").read_text()
    if limits[1] == 10:  # however few were asked for
        assert any(notice.startswith("10 invocations did not decide it: ") for notice in document["notices"])


def test_a_ring_of_slots_that_is_full_is_no_leak(invoke_check: Check) -> None:
    """It was full a few passes before a leak may be told, at the 160th here."""
    few = ["--warm-up", 20, "--invocations", 80, "--no-explain"]
    done = invoke_check(f"{FUNCTIONS / 'ring.py'}:handler", *few, "--json")
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)
    assert document["finding"]["cause"] == "none"
    assert document["invocations"] > 160  # it was not decided then


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that all users can read and write."""
    with tempfile.TemporaryDirectory(prefix="truemem-test-") as name:
        Path(name).chmod(0o777)
        yield Path(name)


def test_extensions_run_beside_the_sidecar(folder: Path) -> None:
    """One that keeps 500 KiB of each invocation."""
    shutil.copy(EXTENSIONS / "vendor.py", folder)
    with Run(replace(resolve(STEADY), extensions=extensions_in(folder))) as run:
        for _ in range(20):
            assert run.invoke({"mib": 1}).function_error is None
        held = [seen.line.members["holders"]["extensions"]["vendor.py"] for seen in run.measurement(0).seen]
    assert held[-1] - held[0] == pytest.approx(19 * 500 / 1024, abs=2)
    assert len(held) == 20


@pytest.mark.parametrize(
    ("handler", "outcomes"), [(SAMPLE, ["kept", "kept"]), (FUNCTIONS / "leaky_sample.py", ["broken", "kept"])]
)
def test_the_sample_function_passes_and_fails_with_a_leak(
    invoke_check: Check, folder: Path, tmp_path: Path, handler: Path, outcomes: list[str]
) -> None:
    events = tmp_path / "events.json"
    events.write_text(json.dumps([{"model": model} for model in range(4)]))
    small = {"MODEL_DIR": folder, "MODEL_COUNT": 4, "CACHE_SIZE": 4, "MODEL_LAYERS": 2, "INTRA_OP_THREADS": 1}
    variables = [option for name, value in small.items() for option in ("--env", f"{name}={value}")]
    page = tmp_path / "growth.html"
    limits = ["--max-drift", 4, "--max-peak", 512, *(["--output", page] if "broken" in outcomes else [])]
    done = invoke_check(f"{handler}:handler", "--events", events, *limits, "--json", *variables)
    document = json.loads(done.stdout)
    assert [limit["outcome"] for limit in document["limits"]] == outcomes, done.output
    assert done.exit_code == outcomes.count("broken")
    if done.exit_code:
        first, patterns = document["explanation"]["lines"][0], (DOCS / "patterns.md").read_text()
        assert first["source"] in patterns
        assert f"leaky_sample.py:{first['line']} " in patterns
        assert "kept.append(bytearray(b" in page.read_text()
        assert "under a tracer, for " in done.stderr
        assert first["perInvocationKiB"] == pytest.approx(8, rel=0.1)


@pytest.mark.parametrize(
    ("steps", "keeps", "code"),
    [
        (30, 0, 0),  # the history of an execution goes when it ends
        (30, 8192, 1),
    ],
)
def test_replays_of_a_durable_function_are_judged(invoke_check: Check, steps: int, keeps: int, code: int) -> None:
    given = ["--env", f"STEPS={steps}", "--env", f"KEEPS={keeps}", "--json"]
    done = invoke_check(f"{FUNCTIONS / 'durable.py'}:handler", *given)
    assert done.exit_code == code, done.output


def test_no_peak_is_lost(invoke_check: Check) -> None:
    """Each spike is over at once. 40 MiB: what malloc gives back to the system whatever came before (mallopt(3))."""
    done = invoke_check(STEADY, "--event", '{"mib": 40}', "--warm-up", 0, "--invocations", 130, "--json")
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)
    assert document["records"] == document["invocations"]
    assert not any("intervals" in notice for notice in document["notices"])
    peaks, currents = document["peaks"], document["currents"]
    assert min(peaks) - max(currents) > 38  # the first are lower by what settling loads: a MiB, once
    assert min(peaks[100:]) - max(currents[100:]) == pytest.approx(40, abs=1)


def test_a_baseline_is_written_and_then_compared_with(invoke_check: Check, tmp_path: Path) -> None:
    baseline, few = tmp_path / "memory.json", ["--warm-up", 0, "--invocations", 130]
    written = invoke_check(STEADY, "--event", '{"mib": 1}', *few, "--write-baseline", baseline)
    assert written.exit_code == 0, written.output
    assert f"Next: truemem size {STEADY} --event " in written.output  # not to write it again
    before = baseline.read_bytes()
    again = ["--baseline", baseline, "--write-baseline", baseline]
    compared = invoke_check(STEADY, "--event", '{"mib": 30}', *few, *again)
    assert compared.exit_code == 1, compared.output
    assert baseline.read_bytes() == before  # a limit was broken
    assert "max-growth (peak)" in compared.output
    assert "not as in the baseline: events" in compared.output


def test_a_baseline_is_of_all_events_of_the_file(invoke_check: Check, tmp_path: Path) -> None:
    """How many were sent until the run was decided is no difference of the events."""
    baseline, events = tmp_path / "memory.json", tmp_path / "events.jsonl"
    events.write_text("".join(f'{{"mib": 1, "n": {number}}}\n' for number in range(300)))
    few = [STEADY, "--events", events, "--warm-up", 0, "--invocations"]
    assert invoke_check(*few, 140, "--write-baseline", baseline).exit_code == 0
    more = invoke_check(*few, 150, "--baseline", baseline)
    assert "not as in the baseline" not in more.output
    events.write_text('{"mib": 1}\n')
    other = invoke_check(*few, 130, "--baseline", baseline)
    assert "not as in the baseline: events" in " ".join(other.output.split())


def test_one_that_always_fails_is_not_measured(invoke_check: Check) -> None:
    event = '{"fail": true, "say": "\\u001b[2Jnothing"}'
    done = invoke_check(STEADY, "--event", event, "--warm-up", 0, "--invocations", 40)
    assert done.exit_code == 2, done.output
    said = " ".join(done.output.split())
    assert "Failing: 5 of 5 invocations failed." in said
    assert "5 of them said: ValueError: as told (steady.py:16). Fix that first. Next: truemem local run " in said
    assert "--allow-errors" in said
    log = done.output.partition("The log of invocation 5 ends:\n")[2]
    assert 'raise ValueError("as told")' in log
    assert "are needed" not in done.output
    assert "  \\x1b[2Jnothing" in done.output.splitlines()  # what it wrote is no command to a terminal
    assert "\x1b" not in done.output


def test_the_result_stands_whichever_output_fails(
    invoke_check: Check, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("truemem_workbench.answer.outputs.write_junit", fail)
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    few = [STEADY, "--warm-up", 0, "--invocations", 130, "--output", tmp_path / "x.xml"]
    written = ["--output", tmp_path / "x.png"]
    broken = invoke_check(
        *few, "--max-peak", 1, "--format", "github", *written, "--write-baseline", tmp_path / "x.json"
    )
    assert broken.exit_code == 1, broken.output
    assert "No space left on device" in broken.stderr
    assert f"::error file={FUNCTIONS / 'steady.py'},line=" in broken.stdout
    assert "❌ broken" in (tmp_path / "summary.md").read_text()
    assert (tmp_path / "x.png").stat().st_size > 1000
    assert "was not written to" in broken.stderr
    assert "a limit was broken" in broken.stderr
    assert not (tmp_path / "x.json").exists()
    passed = invoke_check(*few)
    assert passed.exit_code == 2, passed.output
    assert " passed: 1" in passed.stdout


@pytest.mark.parametrize("option", ["--output x.xml", "--output x.png", "--write-baseline", "GITHUB_STEP_SUMMARY"])
def test_a_place_that_cannot_be_written_is_refused_first(
    invoke_check: Check, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, option: str
) -> None:
    monkeypatch.setattr("truemem_workbench.commands.check._measured", lambda *_, **__: pytest.fail("it ran"))
    option, ending = (*option.split(), "file")[:2]
    place = str(tmp_path / "nowhere" / ending)
    if not option.startswith("--"):
        monkeypatch.setenv(option, place)
    done = invoke_check(STEADY, *([option, place] if option.startswith("--") else []))
    assert done.exit_code == 2
    assert f"cannot write {place}: No such file or directory. Try " in done.output


def test_a_file_of_something_else_is_refused_before_the_run(invoke_check: Check, tmp_path: Path) -> None:
    (tmp_path / "package.json").write_text('{"name": "app"}')
    done = invoke_check(STEADY, "--write-baseline", tmp_path / "package.json", "--output", tmp_path / "new.xml")
    assert done.exit_code == 2
    assert "is no baseline of truemem check. Try another name" in done.output
    assert (tmp_path / "package.json").read_text() == '{"name": "app"}'
    assert not (tmp_path / "new.xml").exists()  # a place that was tried is as it was


def test_a_bootstrap_can_be_checked(invoke_check: Check) -> None:
    # Curl is started anew for each call, and may be there or not when the level is read: any drift is allowed. Each
    # process that anything on this machine starts meanwhile may be another child of the function's, as large as its
    # memory (512 MiB): the limit leaves room for thousands of them.
    limits = ("--max-peak", 10_000_000, "--max-drift", 10_000_000)
    done = invoke_check(BOOTSTRAP, "--warm-up", 0, "--invocations", 130, *limits, "--json")
    assert done.exit_code == 0, done.output
    checked = json.loads(done.stdout)
    assert checked["records"] >= 130  # more, where the verdict needs them
    assert 1 < checked["peak"] < 128


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "give one function: a local one, or the NAME of one in AWS. Try truemem check app.py:handler"),
        ([STEADY, "--function", "mine"], "give one function: a local one, or the NAME of one in AWS"),
        ([STEADY, "--max-growth", "8"], "--max-growth 8 MiB: over what? Try --baseline FILE"),
        ([STEADY, "--event", "1", "--events", "x"], "--event with --events: leave one out"),
        ([STEADY, "--json", "--format", "github"], "standard output takes one of them"),
        ([STEADY, "--log-group", "x"], "is for --function NAME alone"),
        ([STEADY, "--memory", "5"], "memory of 5 MiB: Lambda has 128 to 10240"),
        ([STEADY, "--cpu", "fast"], "cpu fast: it is size, off, or 0.05 to 6 vCPUs. Try --cpu size"),
        (["--function", "mine", "--no-exact"], "--function takes the function as it is"),
        (["--function", "mine", "--cpu", "off"], "--function takes the function as it is"),
        ([STEADY, "--max-growth", "8x"], "'8x' is neither MiB nor a share, as in 8 or 10%"),
        ([STEADY, "--max-drift", "nan"], "'--max-drift': nan is no finite number"),
        ([STEADY, "--max-current", "-1"], "-1.0 is not in the range x>=0"),
        ([STEADY, "--max-errors", "101"], "'--max-errors'"),
        ([STEADY, "--max-p99", "nan"], "'--max-p99'"),
        ([STEADY, "--allow-errors", "--max-errors", "5"], "--allow-errors with --max-errors 5: leave one out"),
        ([STEADY, "--most", "10"], "--most 10 is below --invocations 200. Try --most 2000"),
    ],
)
def test_bad_input_is_refused_in_one_line(invoke_check: Check, arguments: list[str], said: str) -> None:
    done = invoke_check(*arguments)
    assert done.exit_code == 2
    assert said in done.output
