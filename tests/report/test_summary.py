"""The smallest safe memory size."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from truemem_workbench.report.summary import GB_SECOND, Sizing, SizingFigures, advise_size

from tests.report.conftest import Command
from tests.report.written import life, log

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
    billed_ms=100.0,
)


def advice(per_month: float | None = None, price: float = GB_SECOND, **changed: Any) -> Sizing:
    """For what was seen, changed so."""
    return advise_size(dataclasses.replace(SEEN, **changed), headroom=0.2, per_month=per_month, price=price)


def test_need_and_others_with_headroom_rounded_up() -> None:
    assert advice().suggested == 320  # (200 + 20) * 1.2 = 264
    assert advice().mark_suggests == 896  # 700 * 1.2 = 840
    for need, size in ((0.1, 128), (106.7, 192), (213.3, 256), (800.0, 960)):
        assert advice(need=need, others=0.0).suggested == size


def test_saving_is_memory_time_traffic_and_price() -> None:
    assert advice().saving is None
    assert advice(10e6, 0.00002).saving == pytest.approx((1024 - 320) / 1024 * 0.1 * 10e6 * 0.00002)
    assert (advice(1e6, size=256).saving or 0) < 0  # more memory than now costs


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
    found = advice(1e6, **changed)

    assert (found.suggested, found.saving) == (None, None)
    assert why in (found.reason or "")


def test_sizes_of_managed_instances_are_named_as_such(truemem: Command, tmp_path: Path) -> None:
    assert advice(need=20_000.0).suggested == 24_064

    out = truemem("report", log(tmp_path, life("a", 120, initPeakRSS=20_000.0, memoryLimit=32_768))).out
    assert "Smallest safe memory size: 24,064 MB." in out
    assert "Above 10,240 MB there are only Lambda Managed Instances." in out


def test_the_report_says_it_and_names_the_cpu(truemem: Command, tmp_path: Path) -> None:
    path = log(tmp_path, life("a", 120, initPeakRSS=120.0, memoryLimit=1024))
    out = truemem("report", path, "--invocations-per-month", "10000000").out

    # the init phase needed most: (120 + 5) * 1.2 = 150
    assert "Smallest safe memory size: 192 MB. The function needed 120.0 MiB at most" in out
    assert "At that traffic it saves $13.54 a month, if durations stay as they are." in out
    assert "0.58 vCPU become 0.11. Code that computes all the time takes up to 5.3 times as long" in out
    assert "The mark, 200 MB, would have suggested 256 MB by the same rule." in out
