"""`truemem report` of logs without a line of the sidecar: one true sentence for each function."""

import gzip
import json
import random
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.report.conftest import Command
from tests.report.written import line
from tests.triage.logged import BEGIN_MS, OUT_OF_MEMORY, TIMEOUT, Logged, flat, life, noisy, report, stream_of, tail

INCIDENTS = Path(__file__).parents[1] / "mcp" / "incidents"
Told = Callable[..., dict[str, Any]]


def fleet(peaks: Callable[[int], list[float]], environments: int = 10, size: int = 512) -> Iterable[Logged]:
    for number in range(environments):
        yield from life(peaks(number), f"e{number}", size, begin_ms=BEGIN_MS + 60_000 * number)


@pytest.fixture
def told(truemem: Command, tmp_path: Path) -> Told:
    """What `truemem report --json` tells of the one function in these lines."""

    def tell(lines: Iterable[Logged], *more: str) -> dict[str, Any]:
        path = tmp_path / "orders.log"
        path.write_text(tail(lines), encoding="utf-8")
        (made,) = truemem("report", str(path), "--json", *more).document["without_sidecar"]
        assert isinstance(made, dict)
        return made

    return tell


def test_a_leak_that_is_killed_again_and_again(told: Told) -> None:
    made = told(fleet(lambda number: noisy(2000, number, grows=0.5)))
    assert made["state"] == "out of memory"
    assert made["outOfMemory"] == 10
    assert "memory grows until it runs out" in made["sentence"]
    assert made["next"] == "truemem attach NAME"


def test_a_size_that_is_too_small_from_the_start(told: Told) -> None:
    made = told(fleet(lambda _: [600.0]))
    assert made["sentence"].endswith("in an environment's first two invocations: 512 MB is too small.")


def test_spikes_that_kill_are_not_called_growth(told: Told) -> None:
    made = told(fleet(lambda number: [*noisy(17 * number * number + 20, number), 600.0], 12))
    assert made["state"] == "out of memory"
    assert "rather than that memory grows" in made["sentence"]


def test_rare_spikes_are_no_growth_where_most_survive(told: Told) -> None:
    """Ages at their kills are alike up to the age at which environments end: no growth makes them so."""
    for seed in range(8):
        drawn = random.Random(seed)
        until = [drawn.randrange(3, 800) if number % 3 == 0 else 0 for number in range(36)]
        lines = [
            each
            for number, age in enumerate(until)
            for each in life([*noisy(age, number), 600.0] if age else noisy(800, number), f"e{number}")
        ]
        assert "rather than that memory grows" in told(lines)["sentence"]


def test_all_are_killed_at_once_from_a_flat_mark(told: Told) -> None:
    """Environments of one deployment, and requests that come later: ages are alike, memory does not grow."""
    made = told(fleet(lambda number: [*flat(1000 + 3 * number), 600.0], 12))
    assert "need more" in made["sentence"]
    assert "grows" not in made["sentence"]


def test_few_large_steps_are_not_called_spikes(told: Told) -> None:
    def hoarder(number: int) -> list[float]:
        drawn, held = random.Random(number), [100.0]
        while held[-1] <= 512:
            held.append(held[-1] + (150 if drawn.random() < 0.005 else 0))
        return held

    assert "rather than" not in told(fleet(hoarder))["sentence"]


def test_a_request_that_is_tried_again_is_no_size_too_small(told: Told) -> None:
    again = [*flat(300), 600.0]
    lines = [*fleet(lambda _: flat(300), 20), *life(again, "x")]
    lines += [Logged(lines[-1].time_ms + n, stream_of("x"), report(512, status=OUT_OF_MEMORY)) for n in (1, 2)]
    assert "too small" not in told(lines)["sentence"]


def test_two_kills_say_nothing_of_growth(told: Told) -> None:
    made = told(fleet(lambda number: [*noisy(300, number), 600.0], 2))
    assert made["sentence"].endswith("REPORT lines do not say.")


def test_a_timeout_at_the_memory_size_is_a_lack_of_memory(told: Told) -> None:
    """Public logs have 252 to 254 of 256 MB there."""
    lines = [Logged(BEGIN_MS, stream_of("a"), report(254, 256, init=True, status=TIMEOUT, duration=3000))]
    made = told(lines)
    assert (made["state"], made["timeoutsAtLimit"], made["outOfMemory"]) == ("out of memory", 1, 0)


def signalled(lines: Iterable[Logged]) -> Iterable[Logged]:
    """The same where another line than REPORT says that something was killed."""
    for each in lines:
        request = each.text.split()[2]
        yield each._replace(text=each.text.replace(f"\t{OUT_OF_MEMORY}", ""))
        if OUT_OF_MEMORY in each.text:
            yield each._replace(text=f"RequestId: {request} Error: Runtime exited with error: signal: killed")


def test_a_kill_below_the_size_does_not_look_like_growth(told: Told) -> None:
    """Its invocation has the highest mark because it was killed."""
    lines: list[Logged] = []
    for number in range(200):
        *before, last = life([*noisy(random.Random(number).randrange(40, 400), number), 600.0], f"e{number}")
        lines += signalled([*before, last._replace(text=last.text.replace("Used: 512 MB", "Used: 400 MB"))])
    made = told(lines)
    assert "grows before that" not in made["sentence"]
    assert made["growth"]["likelyKiB"] is None


@pytest.mark.parametrize("status", [TIMEOUT, "Status: error\tError Type: Runtime.ExitError"])
def test_a_leak_that_begins_anew_breaks_no_bound(status: str, told: Told) -> None:
    """After a timeout, or an exit, the process is another one; the mark may go on."""
    lines = [
        Logged(
            BEGIN_MS + n, stream_of("a"), report(100 + min(n, 99 if n > 98 else n % 100), 1024, init=n == 0, status=s)
        )
        for n in range(2000)
        for s in [status if n % 100 == 99 else ""]
    ]
    growth = told(lines)["growth"]
    assert growth["provenKiB"] >= 1024
    assert growth["likelyKiB"] is None or growth["likelyKiB"] >= 1024


def test_a_timeout_with_memory_left_is_none(told: Told) -> None:
    lines = [Logged(BEGIN_MS, stream_of("a"), report(100, 256, init=True, status=TIMEOUT, duration=3000))]
    assert told(lines)["state"] == "undecided"


def test_growth_is_told_before_it_kills(told: Told) -> None:
    made = told(fleet(lambda number: noisy(2000, number, grows=0.06)))
    assert made["state"] == "growing"
    assert made["growth"]["aboutKiB"] == pytest.approx(61, rel=0.2)
    assert "reaches 512 MB in" in made["sentence"]


def test_load_that_rises_is_not_called_growth(told: Told) -> None:
    made = told(fleet(lambda number: noisy(400, number, level=100 + 5 * number, grows=0.2), 16))
    assert made["state"] == "undecided"
    assert "began later" in made["sentence"]


def test_a_mark_that_stands_still_clears_a_function(told: Told) -> None:
    made = told(fleet(lambda _: flat(2000)))
    assert (made["state"], made["next"]) == ("no sign of growth", "")
    assert made["growth"]["likelyKiB"] < 2
    assert made["sentence"].startswith("The mark was 100 of 512 MB at most, in 10 environments, the longest of 2,000")
    assert "less than 1.1 KiB in each invocation of any environment, if first" in made["sentence"]


def test_a_few_environments_that_leak_are_not_outvoted(told: Told) -> None:
    """Those of a new deployment, beside many of the one before."""
    old = fleet(lambda _: flat(2000), 20)
    new = [e for n in range(5) for e in life(noisy(300, n, grows=20 / 1024), f"n{n}", begin_ms=BEGIN_MS + 10**7)]
    made = told([*old, *new])
    assert made["state"] != "no sign of growth"
    assert made["growth"]["likelyKiB"] >= 20


def test_a_mark_near_the_size_is_near_a_kill(told: Told) -> None:
    assert told(fleet(lambda _: flat(200, 490)))["state"] == "near the limit"


def test_timeouts_where_others_end_well_are_not_for_memory(told: Told) -> None:
    """The mark has page cache in it: 10 % of a function's invocations end well with 1,023 of 1,024 MB (public logs)."""
    lines = [
        Logged(BEGIN_MS + 500 * n, stream_of("a"), report(1023, 1024, init=n == 0, status=TIMEOUT if n == 400 else ""))
        for n in range(500)
    ]
    assert (made := told(lines))["state"] == "near the limit"
    assert (made["timeouts"], made["timeoutsAtLimit"]) == (1, 0)


def test_a_request_that_is_tried_again_counts_again(told: Told) -> None:
    """With the same id, and where it times out the same duration."""
    text = report(100, init=True, status=TIMEOUT, duration=3000)
    assert told(Logged(BEGIN_MS + 60_000 * n, stream_of("a"), text) for n in range(3))["timeouts"] == 3


def test_environments_whose_begin_is_not_seen_are_not_few(told: Told) -> None:
    """Provisioned concurrency, or a log that begins later."""
    lines = [each._replace(text=each.text.partition("\tInit")[0]) for each in fleet(lambda _: flat(2000))]
    made = told(lines)
    assert "too few" not in made["sentence"]
    assert "may hide growth" in made["sentence"]


def test_few_invocations_say_nothing(told: Told) -> None:
    assert "too few" in told(fleet(lambda _: flat(5)))["sentence"]


def test_without_streams_environments_are_not_mixed_up(told: Told, truemem: Command, tmp_path: Path) -> None:
    lines = [*life(noisy(300, 1), "a"), *life(noisy(300, 2, level=300), "b")]
    path = tmp_path / "mixed.log"
    path.write_text("".join(f"{each.text}\n" for each in sorted(lines)))
    (made,) = truemem("report", str(path), "--json").document["without_sidecar"]
    assert made["environments"] is None
    assert made["growth"] is None
    assert "mixed" in made["sentence"]


def test_without_streams_one_environment_is_assumed(truemem: Command, tmp_path: Path) -> None:
    """Two that grow alike look like one of twice the age."""
    path = tmp_path / "nameless.log"
    path.write_text("".join(f"{report(10 + n / 5, 2048, init=n == 0)}\n" for n in range(1000) for _ in "ab"))
    (made,) = truemem("report", str(path), "--json").document["without_sidecar"]
    assert "if one environment ran at a time" in made["sentence"]


def test_a_size_that_was_changed_divides(truemem: Command, tmp_path: Path) -> None:
    path = tmp_path / "orders.log"
    path.write_text(tail([*life(flat(50), "a", 512), *life(flat(50), "b", 1024)]))
    made = truemem("report", str(path), "--json").document["without_sidecar"]
    assert sorted((each["memorySize"], each["invocations"]) for each in made) == [(512, 50), (1024, 50)]


def test_a_line_that_comes_twice_counts_once(told: Told) -> None:
    lines = list(life(flat(60), "a"))
    assert told([*lines, *lines])["invocations"] == 60


def test_functions_with_and_without_the_sidecar_are_one_report(truemem: Command, tmp_path: Path) -> None:
    """Those that it measures are told by its lines alone."""
    measured, other = tmp_path / "measured.log", tmp_path / "other.log"
    measured.write_text("".join(f"{line(invocation=n)}\n{report(100)}\n" for n in range(1, 50)))
    other.write_text(tail(fleet(lambda _: [600.0])))
    document = truemem("report", str(measured), str(other), "--json").document
    assert [each["function"] for each in document["functions"]] == ["orders"]
    assert [each["file"] for each in document["without_sidecar"]] == [str(other)]
    said = truemem("report", str(measured), str(other)).out
    assert "1 function without the sidecar, 10 invocations: 1 out of memory" in said
    assert "Next: truemem attach NAME" in said


def test_a_duration_that_is_not_said_is_null(truemem: Command, tmp_path: Path) -> None:
    """JSON has no NaN."""
    metrics = {"memorySizeMB": 512, "maxMemoryUsedMB": 100}
    path = tmp_path / "a.log"
    path.write_text(json.dumps({"type": "platform.report", "record": {"requestId": "x", "metrics": metrics}}))
    made = truemem("report", str(path), "--json")
    assert "NaN" not in made.out
    assert made.document["without_sidecar"][0]["durationMs"] is None


def test_since_and_environment_choose(told: Told) -> None:
    lines = list(fleet(lambda _: flat(60), 3))
    assert told(lines, "--environment", stream_of("e1"))["invocations"] == 60
    since = "2026-11-21T00:00:00Z"
    assert told(lines, "--since", since)["invocations"] == 180


@pytest.mark.parametrize(
    ("peaks", "code"), [([600.0], {"oom": 1, "leak": 0}), (noisy(1000, 2, grows=0.35), {"oom": 0, "leak": 1})]
)
def test_a_build_can_fail_on_it(peaks: list[float], code: dict[str, int], truemem: Command, tmp_path: Path) -> None:
    path = tmp_path / "orders.log"
    path.write_text(tail(life(peaks)))
    assert {kind: truemem("report", str(path), "--fail-on", kind).code for kind in code} == code


def test_one_line_tells_them_too(truemem: Command, tmp_path: Path) -> None:
    path = tmp_path / "orders.log"
    path.write_text(tail(life([600.0])))
    said = "1 function without the sidecar, 1 invocation: 1 out of memory"
    assert truemem("report", str(path), "--format", "line").out == f"{said}\n"
    assert truemem("report", str(path), "--json").document["summary"] == said


RECORDED = {
    "line": True,
    "node": True,
    "agent": True,
    "threads": True,
    "hoards": False,
    "spike": False,
    "killed": False,
}
"""Incidents of tests/mcp, recorded under the local Lambda: does memory of the environment grow?"""


@pytest.mark.parametrize("name", RECORDED)
def test_the_local_lambdas_own_marks_are_judged_rightly(name: str, told: Told) -> None:
    lines = []
    for text in gzip.decompress((INCIDENTS / f"{name}.log.gz").read_bytes()).decode().splitlines():
        each = json.loads(text) if text.startswith("{") else {}
        if (mark := each.get("MaxMemoryUsed")) is not None:
            begins = "initDurationMs" in each
            made = report(mark, int(each["memoryLimit"]), init=begins, duration=each["durationMs"])
            lines.append(Logged(each["_aws"]["Timestamp"], each["environmentId"], made))
    assert (told(lines)["state"] == "growing") is RECORDED[name]


def test_the_incident_of_the_article_in_report_lines_alone(told: Told) -> None:
    """40 models of 250 MB and a cache of 8: environments climbed from 400 to 9,000 MB, were killed, climbed again: 270
    kills in three hours (Taktile, 2026)."""
    lines: list[Logged] = []
    for number in range(270):
        drawn = random.Random(number)
        held = [400.0]
        while held[-1] <= 9000:
            held.append(held[-1] + drawn.choice([0, 0, 120, 250]) + drawn.random())
        lines += life(held, f"i{number}", 9000, begin_ms=BEGIN_MS + 40_000 * number)
    made = told(lines)
    assert made["outOfMemory"] == 270
    assert made["sentence"].startswith("Memory ran out 270 times within 3 hours")
    assert made["sentence"].endswith("memory grows until it runs out.")
