"""What both pictures are drawn from says what the report says of the same lines."""

import math

from truemem_workbench.judge.causes import find
from truemem_workbench.judge.curves import curves_of
from truemem_workbench.judge.finding import commands_deployed
from truemem_workbench.page.environments import Flag, gather, most

from testing.invented_lines import line, noisy, parsed, recorded, request_id


def test_after_a_reset_memory_begins_anew_and_is_no_fall() -> None:
    def held(row: int) -> float:
        return 50.0 + (row % 150) * 1.0

    texts = [line(row, CurrentRSS=held(row), PeakRSS=held(row) + 5, suppressedInit=row == 150) for row in range(300)]
    (environment,) = gather(parsed(texts))
    assert environment.finding == find(curves_of(parsed(texts)), commands_deployed("orders"))
    assert environment.finding.cause == "leak"


def test_the_last_sample_of_an_environment_is_not_drawn() -> None:
    texts = [line(row, closedBy="shutdown" if row == 139 else "next-invoke") for row in range(140)]
    (environment,) = gather(parsed(texts))
    assert math.isnan(environment.columns["current"][-1])
    assert environment.finding == find(curves_of(parsed(texts)), commands_deployed("orders"))


def test_invocations_stand_in_their_order_whatever_the_log_s() -> None:
    made = [line(row, PeakRSS=100.0 + row) for row in (0, 3, 1, 2)]
    (environment,) = gather(parsed(made))
    assert list(environment.columns["peak"]) == [100, 101, 102, 103]
    assert environment.request_ids == [request_id(row) for row in range(4)]
    assert environment.count(Flag.COLD_START) == 1


def test_the_same_id_in_two_functions_is_two_environments() -> None:
    made = gather(parsed([line(0, FunctionName="a"), line(0, FunctionName="b")]))
    assert sorted(environment.function for environment in made) == ["a", "b"]


def test_what_does_not_fit_is_left_out_whole() -> None:
    big, small = gather(parsed(recorded(noisy(50))))[0], gather(parsed([line(0, "b")]))[0]
    assert most([big, small], 50, len) == [big]
    assert most([big, small], 51, len) == [big, small]
    assert most([big, small], 10, len) == [big]  # something is shown
