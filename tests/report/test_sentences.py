"""What a report says in words is true of the lines, and never says two things at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from truemem_workbench.lines.line import read
from truemem_workbench.page.environments import gather

from tests.report.conftest import Command, Report, Told
from tests.report.written import life, line


def heap(in_use: float, held: float) -> dict[str, Any]:
    return {"inUse": in_use, "held": held, "mapped": 1.0, "gc": [1, 2, 3], "threads": 1}


def filling(pace: float, invocations: int, **members: Any) -> list[str]:
    """Less and less, as a cache fills."""
    held = [90 + 200 * (1 - pace**number) + number / 500 for number in range(1, invocations + 1)]
    return [
        line("a", number, CurrentRSS=round(each, 2), PeakRSS=round(each + 5, 2), processes=1, **members)
        for number, each in enumerate(held, 1)
    ]


def test_hoarding_is_named_and_not_called_a_leak_nor_left_open(told: Told) -> None:
    out = told(filling(0.7, 64, heap=heap(150.0, 35.0)))
    assert "hoarding; nothing else grows: not a leak" in out
    assert " hoarding " in out  # in the tables, too
    assert "warming" not in out.lower()
    assert "35 MiB are freed but held by the allocator" in out
    assert "No verdict" not in out
    assert "it still grows" not in out


def test_a_leak_beside_hoarding_is_called_both(told: Told) -> None:
    lines = [
        line("a", n, CurrentRSS=190.0 + n, PeakRSS=200.0 + n, processes=1, heap=heap(100.0 + n, 40.0))
        for n in range(1, 201)
    ]
    out = told(lines)
    assert "Growing: 1.0 MiB per invocation" in out
    assert "hoarding; what is in use grows, from" in out
    assert "not a leak" not in out


def lazy(environment: str, invocations: int = 300, **heap: Any) -> list[str]:
    """A heap that grows by 512 KiB with each invocation, and was not collected yet."""
    return [
        line(
            environment,
            n,
            CurrentRSS=round(60 + n / 2 + (n % 3) / 10, 2),
            PeakRSS=round(65 + n / 2, 2),
            processes=1,
            memoryLimit=512,
            heap={"runtime": "java", "used": 10 + n / 2, "committed": 300, "limit": 435, "collections": 0} | heap,
        )
        for n in range(1, invocations + 1)
    ]


def test_growth_of_a_lazy_collector_is_not_left_as_a_leak(told: Told) -> None:
    out = told(lazy("a"))
    assert "Growing: 512.0 KiB per invocation" in out
    assert "(docs/patterns.md#a-collector-that-has-not-run)" in out
    assert "The collector has not needed to run: up to 160 MiB that objects use may be garbage" in out
    assert "truemem_heap" not in out


def test_a_leak_on_the_heap_is_told_before_the_garbage_of_others(told: Told) -> None:
    def collected(n: int) -> dict[str, Any]:
        return {"live": float(10 + n // 20 * 10), "used": 10 + n // 20 * 10 + n % 20 / 10, "collections": n // 20}

    leaks = [each for n in range(1, 301) for each in lazy("b", n, **collected(n))[-1:]]
    out = told([*lazy("a"), *leaks])
    assert "]b: What is live after collection grows by 512 KiB per invocation" in out
    assert "has not needed to run" not in out


def test_a_leak_within_a_heap_that_has_all_its_memory_is_told(told: Told) -> None:
    """RSS cannot show it."""

    def heap_of(n: int) -> dict[str, Any]:
        live = 10 + n // 20 * 10.0
        figures = {"used": live + n % 20, "live": live, "committed": 400, "limit": 435, "collections": n // 20}
        return {"runtime": "java", **figures}

    lines = [
        line("a", n, CurrentRSS=450 + n % 3 / 10, PeakRSS=455, processes=1, memoryLimit=512, heap=heap_of(n))
        for n in range(1, 301)
    ]
    out = told(lines)
    assert "RSS of no environment grows by its verdict, but what the runtime says of its memory does:" in out
    assert "a leak on the heap" in out
    assert "no sign of a leak" not in out


def test_of_a_long_life_some_readings_are_looked_at_from_its_begin_to_its_end(told: Told) -> None:
    """What is live shows at major collections, which are far apart."""
    lines = [
        line(
            "a",
            n,
            CurrentRSS=100 + n / 20,
            PeakRSS=110 + n / 20,
            processes=1,
            memoryLimit=512,
            heap={
                "runtime": "java",
                "used": 10 + n // 150 * 7.5 + n % 150 / 10,
                "live": 10 + n // 150 * 7.5,
                "committed": 300,
                "limit": 435,
                "collections": n // 150,
            },
        )
        for n in range(1, 3001)
    ]
    assert "What is live after collection grows by 51 KiB per invocation" in told(lines)


def test_environments_with_a_lazy_collector_do_not_show_a_leak_together(told: Told) -> None:
    many = [each for number in range(12) for each in lazy(f"e{number}", 160)]
    assert "Together its" not in told(many)


def test_a_heap_s_limit_above_the_memory_size_is_told(told: Told) -> None:
    assert "Set -Xmx435m" in told(lazy("a", 40, limit=1400))


def test_without_the_probe_it_says_what_it_cannot_know(told: Told) -> None:
    assert "held by malloc. In a Python function, `import truemem_heap`" in told(life(grows=1.0))
    assert "truemem_heap" not in told(life())


def test_no_size_is_called_safe_while_memory_rises(told: Told) -> None:
    out = told(filling(0.98, 120))
    assert "No verdict on leaks yet. Warming" in out
    assert "No memory size is suggested: memory still rises in 1 of 1 environments" in out
    assert "Max Memory Used rose" not in out


def test_a_fleet_of_short_lives_that_all_rise_is_told_as_such(told: Told) -> None:
    lines = [each for number in range(30) for each in life(f"e{number}", invocations=20, grows=2.0)]
    out = told(lines)
    assert "No verdict on leaks yet." in out
    assert "It rose in 30 of 30, from 92.0 to 130.0 MiB (medians)." in out
    assert "No memory size is suggested: memory still rises in 30 of 30 environments" in out


def test_a_mark_that_rose_with_the_memory_told_the_truth(told: Told) -> None:
    lines = [
        line("a", n, CurrentRSS=90 + min(n, 60), PeakRSS=95 + min(n, 60), MaxMemoryUsed=105 + min(n, 60))
        for n in range(1, 301)
    ]
    out = told(lines)
    assert "no sign of a leak" in out
    assert "Max Memory Used rose" not in out


@pytest.mark.parametrize(
    ("before", "after", "sentence"),
    [
        (life("a", 200), life("b", 200, 1.0), "Version 42 brought growth that 41 did not have."),
        (life("a", 5), life("b", 200, 1.0), "Version 42 grows; 41 has too few invocations to judge."),
        (life("a", 200, 1.0), life("b", 6), "Version 41 grew; 42 has too few invocations to judge."),
        (life("a", 200, 1.0), life("b", 200), "Version 42 ended the growth of 41."),
        (life("a", 200, 1.5), life("b", 200, 1.0), "Both versions grow."),
    ],
)
def test_a_release_is_blamed_only_for_what_is_known_of_both(
    before: list[str], after: list[str], sentence: str, told: Told
) -> None:
    lines = [each.replace('"$LATEST"', '"41"') for each in before]
    lines += [each.replace('"$LATEST"', '"42"') for each in after]
    assert f"- {sentence}" in told(lines, "--compare", "41:42")


def test_the_last_line_of_an_environment_is_no_doubt_about_its_peaks(told: Told) -> None:
    last = line("a", 201, method="sampled", peakUpper=None, closedBy="shutdown")
    assert "Smallest safe memory size" in told([*life(), last])


UNKNOWN = "No memory size is suggested: in 1 invocation the peak may have reached the memory size: its need"


@pytest.mark.parametrize(
    ("members", "said"),
    [
        (
            {"raced": True, "peakUpper": 300.0},
            "Smallest safe memory size: 384 MB. The function needed 300.0 MiB at most",
        ),
        ({"raced": True, "peakUpper": 1023.9}, "Smallest safe memory size: 1,280 MB"),
        ({"raced": True, "peakUpper": 1024.0}, UNKNOWN),
        ({"raced": True, "peakUpper": None}, UNKNOWN),
        ({"method": "sampled", "peakUpper": None}, UNKNOWN),
        ({"method": "vmhwm-sum", "peakLower": 1030.0, "peakUpper": 1040.0, "PeakRSS": 1040.0}, "size: 1,280 MB"),
    ],
)
def test_a_size_is_by_the_upper_bound_and_where_that_is_the_memory_size_it_is_not_known(
    members: dict[str, Any], said: str, told: Told
) -> None:
    wide = line("a", 150, **members)
    assert said in told([*life(invocations=149), wide, *life()[150:]])


MIB = 1 << 20


def answers(*, times: float, payloads: list[float], **members: Any) -> list[str]:
    """In exact mode: events and answers of so many MiB, each of which takes so many times its size."""
    members = {"mode": "exact", "closedBy": "next-request"} | members
    return [
        line("a", n, requestBytes=int(mib * MIB) - 9, responseBytes=9, PeakRSS=90 + round(times * mib, 2), **members)
        for n, mib in enumerate(payloads, 1)
    ]


@pytest.mark.parametrize("payloads", [[2.0] * 40, [0.3 + n / 10 for n in range(40)], [0.001] * 200 + [2.0] * 20])
def test_a_peak_that_the_payload_explains_is_told_in_its_size(
    payloads: list[float], told: Told, report: Report
) -> None:
    large = sum(mib >= 0.25 for mib in payloads)
    lines = answers(times=3.1, payloads=payloads)
    said = f"Peak growth is 3.1 times the payload (event and answer together): the median of {large} invo"
    assert said in told(lines)
    (function,) = report(lines)["functions"]
    assert function["payload"] == {"times": 3.1, "invocations": large}


@pytest.mark.parametrize(
    "lines",
    [
        answers(times=3.1, payloads=[0.2] * 40),
        answers(times=3.1, payloads=[2.0] * 19),
        answers(times=3.1, payloads=[2.0] * 40, mode=None),
        answers(times=3.1, payloads=[2.0] * 40, raced=True),
        answers(times=0.1, payloads=[2.0] * 40),
        answers(times=90, payloads=[0.3] * 40),
        [each for n in range(1, 40) for each in answers(times=1 + n % 9, payloads=[2.0] * n)[-1:]],
    ],
    ids=["small", "few", "not exact", "raced", "nothing", "something else", "not alike"],
)
def test_where_it_does_not_explain_it_nothing_is_said(lines: list[str], told: Told) -> None:
    assert "the payload" not in told(lines)


def test_where_nothing_was_measured_it_says_so(told: Told) -> None:
    lines = [line("a", n, CurrentRSS=None, PeakRSS=None, peakUpper=None, peakLower=None) for n in range(1, 40)]
    assert "No memory size is suggested: no peak was measured." in told(lines)


def killed(lives: int, invocations: int, **ending: Any) -> list[str]:
    """An environment that grows by 6 MiB each time until it is killed, and begins anew."""
    made = []
    for number in range(1, lives * invocations + 1):
        at = (number - 1) % invocations
        last = at == invocations - 1
        died = {"OutOfMemory": 1, "closedBy": "shutdown", "status": "error", **ending} if last else {}
        begins = {"suppressedInit": True} if at == 0 and number > 1 else {}
        size = 20.0 + 6 * at
        members: dict[str, Any] = {"CurrentRSS": size, "PeakRSS": size + 2, "memoryLimit": 128, **died, **begins}
        made.append(line("a", number, **members))
    return made


@pytest.mark.parametrize("ending", [{}, {"CurrentRSS": None}], ids=["a last sample", "none"])
def test_an_environment_that_is_killed_before_a_verdict_is_due_grows_all_the_same(
    ending: dict[str, Any], told: Told, truemem: Command, tmp_path: Path
) -> None:
    lines = killed(lives=3, invocations=18, **ending)
    out = told(lines)
    assert "3 of 54 invocations ran out of memory" in out
    assert "Growing: 6.0 MiB per invocation" in out
    assert truemem("report", tmp_path / "log.txt", "--fail-on", "leak").code == 1
    (environment,) = gather(read([tmp_path / "log.txt"]))
    assert environment.verdict.name == "growing"
