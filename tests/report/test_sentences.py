"""What a report says in words is true of the lines, and never says two things at once."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from truemem_workbench.page.environments import gather
from truemem_workbench.printed.line import read

from tests.report.conftest import Command, Report, Told
from tests.report.written import extended, life, line


def filling(pace: float, invocations: int, **members: Any) -> list[str]:
    """Less and less, as a cache fills."""
    held = [90 + 200 * (1 - pace**number) + number / 500 for number in range(1, invocations + 1)]
    return [
        line("a", number, CurrentRSS=round(each, 2), PeakRSS=round(each + 5, 2), processes=1, **members)
        for number, each in enumerate(held, 1)
    ]


def answer(report: Report, lines: Iterable[str]) -> Any:
    """The finding on the one function of these lines."""
    (function,) = report(lines)["functions"]
    return function["finding"]


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


def collected(n: int, every: int = 20, **heap: float) -> dict[str, Any]:
    """Live objects grow by 512 KiB with each invocation; a major collection each `every`."""
    live = 10 + n // every * every / 2
    return {"used": live + n % every / 10, "live": live, "collections": n // every} | heap


def test_a_lazy_collector_is_not_accused(report: Report, truemem: Command, tmp_path: Path) -> None:
    lines = [each for number in range(12) for each in lazy(f"e{number}", 160)]
    assert answer(report, lines)["cause"] == "undecided"
    assert truemem("report", tmp_path / "log.txt", "--fail-on", "leak").code == 0


def test_a_leak_on_one_heap_comes_before_garbage_on_another(report: Report) -> None:
    leaks = [lazy("b", n, **collected(n))[-1] for n in range(1, 301)]
    document = report([*lazy("a"), *leaks])
    assert [each["finding"]["cause"] for each in document["environments"]] == ["leak", "undecided"]
    found = document["functions"][0]["finding"]
    assert (found["holder"], found["perInvocationKiB"]) == ("live objects", pytest.approx(512, rel=0.01))


def test_a_long_life_is_sampled_from_begin_to_end(report: Report) -> None:
    """What is live shows at major collections, which are far apart."""
    lines = [
        line("a", n, CurrentRSS=100 + n / 20, PeakRSS=110 + n / 20, processes=1, memoryLimit=512,
             heap={"runtime": "java", "committed": 300, "limit": 435, "collections": n // 150,
                   "used": 10 + n // 150 * 7.5 + n % 150 / 10, "live": 10 + n // 150 * 7.5})
        for n in range(1, 3001)
    ]  # fmt: skip
    found = answer(report, lines)
    assert (found["holder"], found["perInvocationKiB"]) == ("live objects", pytest.approx(51, rel=0.02))


def test_an_extension_that_grows_is_named_and_has_no_size(report: Report, truemem: Command, tmp_path: Path) -> None:
    (function,) = report(extended(300))["functions"]
    found = function["finding"]
    assert (found["cause"], found["holder"], found["hidden"]) == ("extension", "agent", True)
    assert found["perInvocationKiB"] == pytest.approx(1024, rel=0.02)
    assert function["sizing"]["suggested"] is None
    codes = [truemem("report", tmp_path / "log.txt", "--fail-on", each).code for each in ("leak", "oom")]
    assert codes == [1, 0]


@pytest.mark.parametrize(
    "died", [{"environmentKills": 1}, {"errorType": "Extension.Crash", "status": "error"}], ids=["killed", "crashed"]
)
def test_an_environment_that_was_killed_is_counted(
    died: dict[str, Any], report: Report, truemem: Command, tmp_path: Path
) -> None:
    (function,) = report(extended(300, **died))["functions"]
    assert (function["finding"]["cause"], function["ended"]) == ("extension", 1)
    assert truemem("report", tmp_path / "log.txt", "--fail-on", "oom").code == 1


def test_no_size_is_called_safe_while_memory_rises(told: Told) -> None:
    out = told(filling(0.98, 120))
    assert "Undecided: 120 invocations can be judged, 128 are needed." in out
    assert "No memory size is suggested: memory still rises in 1 of 1 environments" in out
    assert "Max Memory Used rose" not in out


@pytest.mark.parametrize(
    ("before", "after", "sentence"),
    [
        (life("a", 200), life("b", 200, 1.0), "Version 42 brought growth that 41 did not have."),
        (life("a", 5), life("b", 200, 1.0), "Version 42 grows; 41 has too few invocations to judge."),
        (life("a", 200, 1.0), life("b", 6), "Version 41 grew; 42 has too few invocations to judge."),
        (life("a", 200, 1.0), life("b", 200), "Version 42 ended the growth of 41."),
        (
            life("a", 200, 1.5),
            life("b", 200, 1.0),
            "Version 42 still grows with each invocation: 1,024.0 KiB, not 1,536.0.",
        ),
        (
            life("a", 200, 1.0),
            life("b", 200, status="error", errorType="Boom"),
            "Version 42 fails, so nothing is said of its memory.",
        ),
    ],
)
def test_a_release_is_blamed_for_what_is_known_of_both(
    before: list[str], after: list[str], sentence: str, told: Told
) -> None:
    lines = [each.replace('"$LATEST"', '"41"') for each in before]
    lines += [each.replace('"$LATEST"', '"42"') for each in after]
    assert told(lines, "--compare", "41:42").startswith(f"{sentence} 1 function, ")


def test_after_a_repair_only_the_new_version_is_told(told: Told) -> None:
    lines = [*life("a", 200, 1.0, functionVersion="41"), *life("b", 200, functionVersion="42")]
    out = told(lines, "--compare", "41:42")

    assert out.startswith("Version 42 ended the growth of 41. 1 function, 400 invocations: 1 to measure ")
    assert "- orders:42: No leak" in out
    assert "orders:41: " not in out


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
def test_a_size_is_by_the_upper_bound_of_the_peak(members: dict[str, Any], said: str, told: Told) -> None:
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
def test_an_environment_killed_before_a_verdict_is_due_grows(
    ending: dict[str, Any], report: Report, told: Told, truemem: Command, tmp_path: Path
) -> None:
    lines = killed(lives=3, invocations=18, **ending)
    found = answer(report, lines)
    assert (found["cause"], found["perInvocationKiB"]) == ("leak", pytest.approx(6144, rel=0.01))
    assert "3 of 54 invocations ran out of memory" in told(lines)
    assert truemem("report", tmp_path / "log.txt", "--fail-on", "leak").code == 1
    (environment,) = gather(read([tmp_path / "log.txt"]))
    assert environment.finding.document() == found
