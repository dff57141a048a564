"""What a settled process keeps, on the line: every command judges by it."""

import importlib.util
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from truemem_workbench.judge.causes import find
from truemem_workbench.judge.curves import curves_of
from truemem_workbench.judge.finding import Commands
from truemem_workbench.judge.witnesses import Witnesses
from truemem_workbench.printed.line import Line, parse_event

TRUEMEM = str(Path(sys.executable).with_name("truemem"))
PROBE = Path(__file__).parents[2] / "layer" / "python" / "truemem_heap.py"
LEAKS = """
KEPT = []

def handler(event, context):
    KEPT.append(bytes(5_000))
    garbage = [[] for _ in range(200)]
    for each in garbage:
        each.append(each)
"""


def text(number: int, kept: float | None, **members: object) -> str:
    heap = {"inUse": 20.0, "held": 1.0, "mapped": 0.0, **({} if kept is None else {"kept": kept, "garbage": 0.0})}
    document = {"environmentId": "a", "requestId": str(number), "invocation": number, "CurrentRSS": 40.0, "heap": heap}
    document |= members
    document = {name: value for name, value in document.items() if value is not None}
    return json.dumps({"_aws": {"Timestamp": number}, "truemem": 1, "schema": 1, **document})


def line(number: int, kept: float | None, **members: object) -> Line:
    (made,) = parse_event(text(number, kept, **members))
    return made


@given(st.floats(2, 500), st.integers(4, 12), st.booleans())
def test_readings_on_the_line_have_the_rate_of_a_leak(rate: float, count: int, is_replaced: bool) -> None:
    """Also where earlier processes have kept something else."""
    earlier = [line(number, 900.0) for number in (10, 20)] if is_replaced else []
    begun = [line(21, None, coldStart=True)]
    lines = [*earlier, *begun, *(line(64 * at, 20 + rate * 64 * at / 1024) for at in range(1, count + 1))]
    found = Witnesses(curves_of(lines)).of("inUse")
    assert found.name == "growing"
    assert found.per_invocation_kib == pytest.approx(rate, rel=0.02)


def test_of_two_readings_in_a_row_the_second_counts() -> None:
    lines = [line(number, 20.0 + (number % 10 == 9)) for at in range(1, 6) for number in (10 * at - 1, 10 * at)]
    assert [each.invocation for each in curves_of(lines).settled] == [10, 20, 30, 40, 50]


def test_a_report_says_what_the_local_run_said(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(LEAKS)
    command = [TRUEMEM, "local", "run", "app.py:handler", "--event", "{}", "--invocations", "160", "--json"]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    said = json.loads(run.stdout.splitlines()[-1])["summary"]["finding"]
    (tmp_path / "run.jsonl").write_text(run.stdout)
    report = subprocess.run(
        [TRUEMEM, "report", "run.jsonl", "--json"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    (function,) = json.loads(report.stdout)["functions"]
    told = function["finding"]
    assert said["cause"] == told["cause"] == "leak"
    assert said["perInvocationKiB"] == pytest.approx(5.1, rel=0.1)
    assert told["perInvocationKiB"] == pytest.approx(said["perInvocationKiB"], rel=0.1)


@pytest.fixture
def settling(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """The probe's schedule in an environment like Lambda's, with this value of TRUEMEM_SETTLE."""

    def make(said: str | None = None) -> Any:
        monkeypatch.delenv("TRUEMEM_SETTLE", raising=False)
        if said is not None:
            monkeypatch.setenv("TRUEMEM_SETTLE", said)
        spec = importlib.util.spec_from_file_location("probe_of_this_test", PROBE)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        made = module.Settling(lambda: 1000)
        made.deadline_ms = time.time() * 1000 + 900_000
        monkeypatch.setattr(time, "process_time_ns", lambda: 10**15)
        return made

    return make


def test_a_deployed_process_is_settled_ever_more_seldom(settling: Callable[..., Any]) -> None:
    made, at = settling(), []
    for answer in range(1, 600):
        if made.is_due():
            at.append(answer)
            assert made.settle()["kept"] == 1000
    assert at == [64, 128, 256, 512]


def test_it_is_not_settled_near_the_timeout_or_if_told_so(settling: Callable[..., Any]) -> None:
    late, off = settling(), settling("off")
    late.deadline_ms = time.time() * 1000 + 1
    assert not any(each.is_due() for each in (late, off) for _ in range(600))


def node(number: int, anon: float) -> Line:
    """An invocation of Node.js after which it was settled: V8's heap is level."""
    heap = {"runtime": "nodejs", "used": 9.0, "committed": 20.0, "external": 2.0, "collections": number // 9}
    settled = {"kept": 11.0, "garbage": float(number // 9)} if number in (64, 128, 256, 512, 1024) else {}
    rss = {"CurrentRSS": 30.0 + anon, "rss": {"anon": anon, "file": 30.0, "shmem": 0.0}}
    return line(number, None, heap={**heap, **settled}, processes=1, **rss)


def test_a_level_heap_of_node_hides_no_native_leak() -> None:
    """The line of Node.js does not say what malloc gives out."""
    leaks, level = ([node(number, 20 + number * kib / 1024) for number in range(1, 1101)] for kib in (50, 0))
    commands = Commands(again="truemem check")
    assert find(curves_of(leaks), commands).cause == "native"
    assert find(curves_of(level), commands).cause == "none"


class Cache:
    """As much of cachetools' class as is read."""

    maxsize = property(lambda self: 50)
    currsize = property(lambda self: 20)


class Expiring(Cache):
    """A TTLCache lets entries go when it is asked how many it has."""

    asked = 0

    @property
    def currsize(self) -> int:
        Expiring.asked += 1
        return 0


def test_a_cache_is_not_asked_by_its_own_methods(settling: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cachetools", type("module", (), {"Cache": Cache}))
    kept = Expiring()
    settling().settle()
    assert kept.asked == 0


def test_on_managed_instances_nothing_is_settled(settling: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_LAMBDA_MAX_CONCURRENCY", "8")
    made = settling()
    assert not any(made.is_due() for _ in range(600))


def unprobed(number: int, in_use_kib: float, rss: float = 50.0, held_kib: float = 900.0) -> str:
    """An invocation of a function without a probe; after some of them the sidecar has read malloc."""
    heap = {"inUse": round(in_use_kib / 1024, 3), "held": round(held_kib / 1024, 3), "mapped": 0.5, "source": "outside"}
    is_read = number in (64, 128, 256, 512, 1024, 2048)
    return text(number, None, heap=heap if is_read else None, CurrentRSS=rss, PeakRSS=rss)


def parsed(texts: list[str]) -> list[Line]:
    return [made for each in texts for made in parse_event(each)]


COMMANDS = Commands(again="truemem check", heap="truemem attach --heap")


def test_growth_of_malloc_is_a_leak_also_where_rss_hides_it(tmp_path: Path) -> None:
    texts = [unprobed(number, 2000 + 6 * number) for number in range(1, 1100)]
    found = find(curves_of(parsed(texts)), COMMANDS)
    assert found.cause == "leak"
    assert found.hidden
    assert found.per_invocation_kib == pytest.approx(6, rel=0.02)
    assert any(evidence.startswith("in use 2.8 to ") for evidence in found.evidence)
    (tmp_path / "log.jsonl").write_text("\n".join(texts))
    command = [TRUEMEM, "report", "log.jsonl", "--json"]
    report = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    (function,) = json.loads(report.stdout)["functions"]
    assert function["finding"]["cause"] == "leak"
    assert function["finding"]["perInvocationKiB"] == pytest.approx(6, rel=0.02)


def test_level_malloc_is_no_proof_of_no_leak() -> None:
    """The runtime may have a heap beside it: RSS decides, and the answer says what is known."""
    texts = [unprobed(number, 2000, 50 + number * 20 / 1024, 900 + number) for number in range(1, 1100)]
    unread = [text(number, None, heap=None, CurrentRSS=50 + number * 20 / 1024) for number in range(1, 1100)]
    found, without = (find(curves_of(parsed(each)), COMMANDS) for each in (texts, unread))
    assert (found.cause, found.title, found.next) == (without.cause, without.title, without.next)
    assert "as far as RSS can tell" in found.title
    assert any("malloc has given out 2.5 MiB" in evidence for evidence in found.evidence)
    two = find(curves_of(parsed(texts[:250])), COMMANDS)  # few readings, which prove nothing, are told as well
    assert any("malloc has given out 2.5 MiB" in evidence for evidence in two.evidence)
    level = [unprobed(number, 2000) for number in range(1, 1100)]
    assert find(curves_of(parsed(level)), COMMANDS).cause == "none"


@pytest.mark.parametrize("needs_kib", [30, 300, 3000])
def test_what_an_invocation_needs_is_not_taken_for_growth(needs_kib: int) -> None:
    """It was read while the next one ran, whose event has any size."""
    chance = Random(needs_kib)
    for _ in range(100):
        need = [chance.lognormvariate(0, 1) * needs_kib / 4 for _ in range(6)]
        lines = parsed([unprobed(64 * 2**at, 3000 + kib) for at, kib in enumerate(need)])
        names = {Witnesses(curves_of(lines[:count])).of("inUse").name for count in range(1, 7)}
        assert names == {"insufficient"}
