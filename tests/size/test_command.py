"""What `truemem size` refuses, and which sizes it tries in which order: without a function that runs."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest
from truemem_workbench.judge.finding import Commands
from truemem_workbench.local import Invocation, LocalLambda, Report
from truemem_workbench.runs.measurement import Measurement
from truemem_workbench.size import local_sweep
from truemem_workbench.size.choice import Trial
from truemem_workbench.size.local_sweep import LocalSweep, Plan, Sweep
from truemem_workbench.support.bad_input import BadInput
from truemem_workbench.target.resolve import resolve
from truemem_workbench.target.target import Target

from tests.check.conftest import run_of
from tests.size.conftest import HASHING, Size

TEMPLATE = Path(__file__).parents[1] / "check" / "functions" / "template.yaml"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["--memory", "128,many"],
            "--memory 128,many: 'many' is no memory size, 128 to 10240 MB. Try --memory 512",
        ),
        (["--memory", "64"], "--memory 64: '64' is no memory size"),
        (["--memory", "512,"], "--memory 512,: '' is no memory size"),
        (["--memory", "128,0128"], "--memory 128,0128: 128 is there twice. Try each size once"),
        (
            ["--memory", "10240"],
            "--memory 10240: this machine has 2 CPUs, as many as 3,538 MB buy: 10,240 MB",
        ),
        (["--balanced-weight", "0.2"], "--balanced-weight 0.2 is for --strategy balanced. Add that, or leave it out"),
        (["--output", "sizes.svg"], "--output sizes.svg: its ending is not .png or .json. Try --output sizes.png"),
        (
            ["--output", "/no/such/sizes.png"],
            "cannot write /no/such/sizes.png: No such file or directory. Try",
        ),
        (["--events", "/no/such.jsonl"], "cannot read events from /no/such.jsonl: No such file or directory. Try"),
        (["--env", "NAME"], "--env NAME has no value. Try --env NAME=VALUE"),
    ],
)
def test_bad_input_is_named_with_what_to_type(
    invoke_size: Size, monkeypatch: pytest.MonkeyPatch, arguments: list[str], said: str
) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1})
    done = invoke_size(HASHING, *arguments)
    assert (done.exit_code, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.output
    assert done.stderr.startswith(f"truemem size: {said}")


def test_without_a_limit_of_cpu_no_size_is_tried(invoke_size: Size, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LocalLambda, "limits_cpu", False)
    done = invoke_size(HASHING, "--memory", "128,256")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "this machine permits no limit of CPU, so all sizes would be as fast" in done.stderr


# --- sizes and their order --------------------------------------------------------------------------------------------


class Environment:
    """Answers at once, and is killed if it has less than 200 MiB. It needs 260, or what `need` says."""

    calls: ClassVar[list[tuple[str, int, object]]] = []
    need = 260.0
    limits_cpu = True

    def __init__(self, size: int, kind: str) -> None:
        self.size, self.kind, self.local = size, kind, self

    def __enter__(self) -> "Environment":
        return self

    def __exit__(self, *error: object) -> None: ...

    def invoke(self, event: object) -> Invocation:
        self.calls.append((self.kind, self.size, event))
        failed = "Unhandled" if self.size < 200 else None
        return Invocation("id", {"errorType": "Runtime.OutOfMemory"} if failed else 1, b"", failed, 200, "arn")

    def report_of(self, answer: Invocation) -> Report:
        error = "Runtime.OutOfMemory" if self.size < 200 else None
        return Report(answer.request_id, "success", error, 7.0, 7, self.size, 260, None)

    def begin_passes(self, invocations: int) -> None: ...

    def measurement(self, warm_up: int) -> Measurement:
        return run_of([self.need - 5])


Swept = Callable[..., Sweep]


@pytest.fixture
def swept(monkeypatch: pytest.MonkeyPatch) -> Swept:
    """A sweep of two events, on a machine with two CPUs."""
    monkeypatch.setattr(Environment, "calls", [])

    def run_of_target(target: Target) -> Environment:
        return Environment(target.memory_mib, "growth" if target.probe else "peak" if target.sidecar else "time")

    monkeypatch.setattr(local_sweep, "Run", run_of_target)
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1})
    monkeypatch.setattr("os.getloadavg", lambda: (0.9, 9, 9))

    def run(asked: list[int] | None, target: Target | None = None, **plan: Any) -> Sweep:
        plan = {"invocations": 2, "warm_up": 1} | plan
        given = (target or resolve(HASHING), ["a", "b"], Plan(**plan), Commands(again="truemem check"))
        return LocalSweep(*given, lambda *_: None).run(asked)

    return run


def test_sizes_take_turns_with_the_same_event(swept: Swept) -> None:
    trials = swept([256, 512]).trials
    Environment.calls = [call for call in Environment.calls if call[0] != "growth"]
    peaks = [call for call in Environment.calls if call[0] == "peak"]
    assert peaks == [*((("peak", 256, event)) for event in "aba"), *((("peak", 512, event)) for event in "aba")]
    assert [call[1:] for call in Environment.calls[len(peaks) :]] == [
        *((256, "a"), (512, "a")),  # to warm up
        *((256, "a"), (512, "a"), (256, "b"), (512, "b")),
    ]
    assert [(each.durations, each.invocations) for each in trials] == [([7.0, 7.0], 6)] * 2


def test_a_size_that_is_out_is_not_invoked_again(swept: Swept) -> None:
    trials = swept([128, 512]).trials
    assert [(each.memory, each.invocations) for each in trials] == [(128, 1), (512, 6)]


def test_as_many_look_for_the_peak_as_there_are_events() -> None:
    assert Plan(warm_up=3).looks(events=1) == 10
    assert Plan(warm_up=3).looks(events=30) == 30
    assert Plan(warm_up=3).looks(events=1000) == 53  # no other is timed
    assert Plan(invocations=2, warm_up=1).looks(events=1) == 3
    assert Plan(invocations=200, warm_up=3).looks(events=1) == 203  # enough for a finding


def test_sizes_are_those_that_make_sense(swept: Swept) -> None:
    found = swept(None)
    assert [each.memory for each in found.trials] == [320, 512, 1024, 1769, 3008]  # 260 MiB, and a fifth
    assert found.notices == [
        "this machine has 2 CPUs, as many as 3,538 MB buy: 5,307, 7,076, 10,240 MB cannot be tried here"
    ]


@pytest.mark.parametrize(
    ("looked", "timed", "rise", "is_rising"),
    [
        ([50] * 4, [40, 42, 44, 46, *range(48, 64, 2)], 16, True),  # 2 MiB an invocation
        ([50] * 4, [40, 45, *[46] * 10], 0, False),
        ([50] * 4, [40, 45, 45, 45, *[60] * 8], 15, False),
        ([], [40, 42, 44, 46, *range(48, 64, 2)], 0, True),  # in AWS all of them look for the peak
        ([50] * 4, [], 0, False),
    ],
)
def test_a_rise_is_of_the_timed_invocations(looked: list[int], timed: list[int], rise: int, is_rising: bool) -> None:
    tally = Trial(memory=128, warm_up=len(looked) + 2, looks=len(looked))
    for mark in (*looked, *timed):
        tally.add(Report("id", "success", None, 7.0, 7, 128, mark, None), "")
    trial = tally.judged(run_of([50.0]))
    assert (trial.rise, trial.is_rising) == (rise, is_rising)


def test_a_size_that_only_looked_for_the_peak_is_no_result(swept: Swept, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Environment, "need", 2800.0)
    assert [each.memory for each in swept(None).trials] == [3392]  # looked for at 3,008


def test_the_size_of_a_template_is_tried_too(swept: Swept) -> None:
    target = replace(resolve(f"{TEMPLATE}:Plain"), memory_mib=300)
    assert [each.memory for each in swept(None, target).trials][:2] == [300, 320]


def test_a_size_for_more_cpus_than_there_are_is_left_out(swept: Swept) -> None:
    found = swept([512, 4096])
    assert [each.memory for each in found.trials] == [512]
    assert found.notices == ["this machine has 2 CPUs, as many as 3,538 MB buy: 4,096 MB cannot be tried here"]


def test_a_need_above_what_the_cpus_stand_for_is_refused(swept: Swept, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Environment, "need", 3510.0)
    with pytest.raises(BadInput, match=r"it needs 3,510 MiB, 4,224 with headroom: .* a machine with 3 CPUs"):
        swept(None)


def test_if_it_is_killed_at_the_largest_size_no_other_is_tried(swept: Swept, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_sweep, "LADDER", (128, 160))
    assert [(each.memory, each.killed) for each in swept(None).trials] == [(160, 1)]


def test_on_a_small_machine_sizes_are_tried_in_groups(swept: Swept, monkeypatch: pytest.MonkeyPatch) -> None:
    free = type("free", (), {"available": 900 * 2**20})
    monkeypatch.setattr("psutil.virtual_memory", lambda: free)
    assert swept([256, 300]).notices == []  # 630 MiB may be taken: two of them
    Environment.calls.clear()
    found = swept([256, 300, 350])
    assert [size for kind, size, _ in Environment.calls if kind == "time"] == [256, 300] * 3 + [350] * 3
    assert "this machine's memory holds 2 environments at once" in found.notices[0]


def test_a_busy_machine_is_said(swept: Swept, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.getloadavg", lambda: (1.1, 0, 0))
    assert swept([256]).notices == [
        "this machine is busy (load 1.1): large sizes look slower than they are. Try it again later"
    ]


def test_fewer_rounds_are_said(swept: Swept, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_sweep, "PATIENCE_S", 0.0)
    said = Plan().cut(10)
    assert swept([256], invocations=None).notices == [said]
    assert "with 10 of 50 timed invocations a size. --invocations N has no such limit" in said


def test_rounds_end_after_five_minutes() -> None:
    assert not Plan().is_over(9, 1000)
    assert not Plan().is_over(49, 299)
    assert Plan().is_over(10, 301)
    assert not Plan(invocations=50).is_over(10, 301)  # they were asked for
