"""The smallest safe memory size, and whether it is worth going there."""

import dataclasses
import re
from pathlib import Path
from typing import Any

import pytest
from truemem_workbench.judge.prices import GB_SECOND
from truemem_workbench.judge.size_prediction import Invocations
from truemem_workbench.judge.sizing import Fit, Sizing, SizingFigures, advise_size
from truemem_workbench.support.environment_ids import local_id

from tests.report.conftest import Command, Report, Told
from tests.report.written import life, line, log

WAITING = Invocations.of(1024, [(100.0, 5.0)] * 100)
HASHING = Invocations.of(1024, [(421.0, 256.0)] * 100)
SEEN = SizingFigures(
    invocations=1000,
    size=1024,
    need=200.0,
    others=20.0,
    mark=700.0,
    unbounded=0,
    out_of_memory=0,
    environments=10,
    growing=0,
    together=False,
    open="",
    settled=8,
    rising=0,
    computed=WAITING,
)


def advice(**changed: Any) -> Sizing:
    """For what was seen, changed so."""
    return advise_size(dataclasses.replace(SEEN, **changed), headroom=0.2, gb_second=GB_SECOND["x86_64"])


def test_need_and_others_with_headroom_rounded_up() -> None:
    assert advice().safe == 320  # (200 + 20) * 1.2 = 264
    assert advice().mark_suggests == 896  # 700 * 1.2 = 840
    for need, size in ((0.1, 128), (106.7, 192), (213.3, 256), (800.0, 960)):
        assert advice(need=need, others=0.0).safe == size


@pytest.mark.parametrize(
    ("changed", "fit", "suggested"),
    [
        ({}, Fit.OVERSIZED, 320),
        ({"computed": HASHING}, Fit.FITS, None),
        ({"computed": None}, Fit.UNMEASURED, None),
        ({"computed": Invocations.of(1024, [(100.0, 5.0)] * 99)}, Fit.UNMEASURED, None),
        ({"size": 320.0}, Fit.FITS, None),
        ({"size": 256.0}, Fit.SMALL, 320),
        ({"size": None}, Fit.UNKNOWN, None),
    ],
)
def test_smaller_size_is_suggested_only_if_cheaper(changed: dict[str, Any], fit: Fit, suggested: int | None) -> None:
    found = advice(**changed)
    assert (found.fit, found.safe, found.suggested) == (fit, 320, suggested)


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"need": None}, "no peak was measured"),
        ({"open": "most invocations failed"}, "most invocations failed"),
        ({"growing": 3}, "memory grows in 3"),
        ({"settled": 0, "rising": 6}, "still rises in 6 of 10 environments, and none has settled"),
        ({"out_of_memory": 1, "size": 512.0}, "at 512 MiB, so its need is not known: give it 1,024 MiB"),
        ({"out_of_memory": 1, "size": 6144.0}, "give it 10,240 MiB"),
        ({"out_of_memory": 1, "size": 10_240.0}, "give it 20,480 MiB (Managed Instances) for a while"),
        ({"out_of_memory": 1, "size": 32_768.0}, "at Lambda's largest size, 32,768 MiB"),
        ({"out_of_memory": 1, "size": None}, "give it more"),
        ({"invocations": 99}, "99 invocations are too few"),
        ({"need": 30_000.0}, "more than Lambda's largest size, 32,768 MiB"),
        ({"unbounded": 1}, "in 1 invocation the peak may have reached the memory size: its need is not known"),
    ],
)
def test_no_size_where_none_is_known_to_be_safe(changed: dict[str, Any], why: str) -> None:
    found = advice(**changed)

    assert (found.fit, found.safe, found.suggested, found.saving) == (Fit.UNKNOWN, None, None, None)
    assert why in (found.reason or "")


def test_sizes_of_managed_instances_are_named_as_such(truemem: Command, tmp_path: Path) -> None:
    assert advice(need=20_000.0).safe == 24_064

    out = truemem("report", log(tmp_path, life("a", 120, initPeakRSS=20_000.0, memoryLimit=32_768))).out
    assert "Smallest safe memory size: 24,064 MB." in out
    assert "Above 10,240 MB there are only Lambda Managed Instances." in out


def test_a_hashing_handler_is_never_sent_to_128_mb(told: Told, report: Report) -> None:
    """At 1,024 MB: 421 ms. Swept, 128 MB took 3,540 ms, and $7.38 a million instead of $7.02."""
    lines = life("a", 150, durationMs=421.0, cpuMs=256.0)
    (function,) = report(lines)["functions"]
    sizing = function["sizing"]
    assert (sizing["fit"], sizing["safe"], sizing["suggested"]) == ("fits", 128, None)
    assert sizing["prediction"]["p50"]["low"] <= 3540 <= sizing["prediction"]["p50"]["high"]
    assert sizing["prediction"]["cost"]["low"] <= 7.38 <= sizing["prediction"]["cost"]["high"]
    out = told(lines)
    assert "nothing to do" in out
    assert "oversized" not in out
    assert "128 MB is not suggested, it may cost more: CPU time is 61% of the duration, so p50 becomes 3,345 to" in out
    assert "(now $7.02). Measure it: truemem size orders -" in out


def test_a_waiting_handler_is_and_the_worst_is_said(told: Told) -> None:
    out = told(life("a", 150, durationMs=100.0, cpuMs=5.0))
    # 95 ms of waiting, and 5.5 ms at 128 / 1,769 of a vCPU: 76.0 ms
    assert "128 MB costs less: CPU time is 5% of the duration, so p50 becomes 100.0 to 171.0 ms (now 100.0)." in out
    assert "At worst: p50 171.0 ms, p99 171.0 (now 100.0), slowest 171.0 (now 100.0)," in out
    assert "$0.36 a million invocations (now $1.67)." in out


def rarely(often: dict[str, float], rare: dict[str, float], **every: Any) -> list[str]:
    """200 invocations: one of 20 is `rare`."""
    return [line("a", at, **(rare if at % 20 == 0 else often), **every) for at in range(1, 201)]


def test_a_saving_that_makes_some_very_slow_is_not_proposed(told: Told, report: Report) -> None:
    """One of 20 uses all its vCPUs: if it was one thread after the other, it takes five times as long."""
    waits, computes = {"durationMs": 100.0, "cpuMs": 5.0}, {"durationMs": 100.0, "cpuMs": 500.0}
    lines = rarely(waits, computes, memoryLimit=10_240, PeakRSS=4290.0, highWaterMark=4290.0)
    (function,) = report(lines)["functions"]
    sizing = function["sizing"]
    assert (sizing["fit"], sizing["safe"], sizing["suggested"]) == ("fits", 5184, None)
    assert sizing["prediction"]["cost"]["high"] < sizing["prediction"]["cost_now"]
    out = told(lines)
    assert "5,184 MB is enough memory, but may be slow" in report(lines)["actions"][0]["text"]
    assert "5,184 MB is not suggested, p99 may rise from 100.0 to 513.6" in out
    assert "Measure it: truemem size orders -" in out


def test_a_size_in_between_is_suggested_if_the_smallest_is_slow(told: Told, report: Report) -> None:
    """One of 20 computes, all the time: at 128 MB it may take 4 s."""
    lines = rarely({"durationMs": 100.0, "cpuMs": 5.0}, {"durationMs": 500.0, "cpuMs": 280.0})
    (function,) = report(lines)["functions"]
    assert (function["sizing"]["safe"], function["sizing"]["suggested"]) == (128, 512)
    out = told(lines)
    assert "Smallest safe memory size: 128 MB." in out
    assert "512 MB costs less: CPU time is" in out
    assert "not suggested" not in out


def test_without_cpu_time_it_says_what_is_missing(told: Told) -> None:
    out = told(life("a", 150))
    assert "What 128 MB would cost is not known: the lines have no `cpuMs`. Measure it: truemem size orders" in out
    assert "costs less" not in out
    few = [*life("a", 90, cpuMs=5.0), *life("a", 150)[90:]]
    assert "90 invocations with `cpuMs` are too few, 100 are needed" in told(few)


def test_a_local_log_names_no_command_for_aws(told: Told) -> None:
    here = local_id()
    for lines in (life(here, 150), life(here, 300, grows=0.5), life(here, 10)):
        out = told(lines)
        assert re.search("Next: truemem (check|explain) FILE:HANDLER", out)
        assert "--function" not in out
        assert "attach" not in out
    assert "Measure it: truemem size FILE:HANDLER -" in told(life(here, 150))


def test_cpu_time_of_another_size_predicts_nothing(report: Report) -> None:
    lines = [*life("a", 150, cpuMs=5.0, memoryLimit=512), *life("b", 150, _aws={"Timestamp": 1_795_300_000_000})]
    (function,) = report(lines)["functions"]
    assert (function["size"], function["sizing"]["fit"]) == (1024, "unmeasured")


def test_cost_has_init_phases_requests_and_lines(told: Told, report: Report) -> None:
    lines = [
        *life("a", 1, durationMs=99.5, coldStart=True, initDurationMs=300.2, billedDurationMs=400.0),
        *life("a", 150, durationMs=99.5)[1:],
    ]
    (function,) = report(lines, "--invocations-per-month", "3000000")["functions"]
    cost = function["cost"]
    size = sum(map(len, lines)) / 150
    assert cost["computing"] == pytest.approx(1e6 * 0.1 * 0.0000166667)
    assert cost["init"] == pytest.approx(1e6 / 150 * 0.3 * 0.0000166667)
    assert (cost["requests"], cost["log_lines"]) == (pytest.approx(0.2), pytest.approx(size * 1e6 / 1e9 * 0.5))
    assert cost["per_month"] == pytest.approx(3 * cost["per_million"])
    assert "$1.67 computing, $0.03 init phases, $0.20 requests, $0.2" in told(lines)


def test_price_is_of_the_architecture_or_the_users_own(report: Report) -> None:
    def computing(*options: str) -> float:
        (function,) = report(life("a", 120, durationMs=100.0), *options)["functions"]
        return float(function["cost"]["computing"])

    assert computing("--architecture", "arm64") == pytest.approx(1e6 * 0.1 * 0.0000133334)
    assert computing("--gb-second", "0.00001") == pytest.approx(1.0)


def test_a_months_traffic_is_that_of_the_lines(report: Report) -> None:
    """From an hour on; of less, a month is not told."""
    short = life("a", 120)
    hours = [*short, *life("b", 120, _aws={"Timestamp": 1_795_288_667_424 + 2 * 3600 * 1000})]
    assert report(short)["functions"][0]["cost"]["per_month"] is None
    assert report(hours)["functions"][0]["cost"]["invocations"] == pytest.approx(240 * 730 / 2, rel=0.001)


def test_managed_instances_have_no_price_of_a_duration(report: Report) -> None:
    (function,) = report(life("a", 120, sharedBy=1, cpuMs=5.0))["functions"]
    assert (function["cost"], function["sizing"]["fit"]) == (None, "unmeasured")


FAILED = {"status": "error", "closedBy": "shutdown", "durationMs": 600.0, "cpuMs": None}


def test_many_invocations_without_cpu_time_predict_nothing(told: Told, report: Report) -> None:
    """Each tenth computes for 600 ms and ends the process: the others, which wait, do not say what it would cost."""
    lines = life("a", 200, durationMs=25.0, cpuMs=0.9)
    lines[9::10] = [line("a", at, **FAILED) for at in range(10, 201, 10)]
    (function,) = report(lines)["functions"]
    assert (function["sizing"]["fit"], function["sizing"]["suggested"]) == ("unmeasured", None)
    why = "CPU time is not known of 20 of 200 invocations, 73% of the billed time. Measure it: truemem size orders"
    assert why in told(lines)


def test_few_without_it_are_in_all_figures(report: Report) -> None:
    lines = life("a", 300, durationMs=100.0, cpuMs=5.0)
    lines[99] = line("a", 100, **{**FAILED, "durationMs": 500.0})
    (function,) = report(lines)["functions"]
    at = function["sizing"]["prediction"]
    assert at["cost_now"] == pytest.approx(function["cost"]["computing"])
    waits, computes = 299 * 100 + 500, 299 * 171 + 500 * 8
    assert at["cost"]["low"] == pytest.approx(waits / computes * at["cost"]["high"], rel=0.05)


def test_how_an_environment_ends_says_nothing_of_cpu_time(report: Report) -> None:
    """In the default mode the runtime has ended before the sidecar looks; but a first invocation is not like others."""
    ends = {"closedBy": "shutdown", "durationMs": 100.0}
    lines = [each for name in map(str, range(12)) for each in life(name, 9, durationMs=100.0, cpuMs=5.0)]
    short = [line(f"short {at}", 1, **ends) for at in range(12)]
    lines += [line(str(at), 10, **ends) for at in range(12)]
    (known,), (unknown,) = report(lines)["functions"], report([*lines, *short])["functions"]
    assert (known["sizing"]["fit"], known["sizing"]["prediction"]["computing"]) == ("oversized", pytest.approx(0.05))
    assert unknown["sizing"]["fit"] == "unmeasured"
