"""A pytest plugin: a test fails if its function's memory breaks a limit.

    @pytest.mark.memory(handler="app.py:handler", invocations=200, max_drift_kib=4, max_peak_mib=256)
    def test_memory(): ...

pytest loads it in every test run where it is installed, so it imports nothing of ours until a test needs it.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, NoReturn

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator
    from pathlib import Path

    from ..answer.baseline import Baseline
    from ..answer.result import Result
    from ..runs.here import Run
    from ..runs.measurement import Measurement
    from .pytest_marker import MemoryMarker

MARKER = (
    "memory(handler, invocations=200, most=None, event={}, events=None, warm_up=80, max_drift_kib=None,"
    " max_drift_per_minute_kib=None, max_peak_mib=None, max_current_mib=None, max_p99_ms=None, max_tmp_mib=None,"
    " max_descriptors_drift=None, baseline=None, max_growth=None, memory_mib=None, timeout_s=None, env={},"
    " exact=True, probe=True, extensions=None, allow=(), max_errors_percent=None, allow_errors=False, explain=None):"
    " run the function under truemem's local Lambda, and fail the test where its memory, p99 or errors break a limit."
    " Without a limit on drift it must not grow, and while that is undecided more invocations are made, for two"
    " minutes or up to `most`. `events` is a list, or a file's path from the root folder. With the fixture"
    " `lambda_environment`, the test itself invokes."
)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", MARKER)


RESULT = pytest.StashKey["Result"]()


@pytest.fixture
def truemem(request: pytest.FixtureRequest) -> Result:
    """The result of the marker's run, for a test's own assertions: `truemem.measurement.peak`, `.verdict` ..."""
    item = request.node
    if "lambda_environment" in item.fixturenames:
        _refuse("the fixtures truemem and lambda_environment are two runs. Take one of them")
    result = _run(item, _marker(item))
    item.stash[RESULT] = result
    return result


@pytest.fixture
def lambda_environment(request: pytest.FixtureRequest) -> Iterator[Run]:
    """The marker's function under a local Lambda: `lambda_environment.invoke(event)`. Limits are checked at the end."""
    marker = _marker(request.node)
    from ..answer.limits import LimitsDecision
    from ..runs.here import Run

    _baseline(request.node, marker)  # fails early if there is nothing to compare with
    with ExitStack() as stack:
        with _refusing():
            run = stack.enter_context(Run(marker.target(_folders(request.node)), LimitsDecision(marker.limits)))
        yield run


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    outcome = yield
    if item.get_closest_marker("memory") is None:
        return outcome
    run = getattr(item, "funcargs", {}).get("lambda_environment")
    marker = _marker(item)
    if run is not None:
        result = _result(run.measurement(marker.warm_up), marker, _baseline(item, marker), invoked_by_test=True)
    else:
        result = item.stash[RESULT] if RESULT in item.stash else _run(item, marker)
    if result.measurement.peak is not None:
        item.user_properties.append(("truemem_peak_mib", round(result.measurement.peak[1], 2)))
    if (latency := result.measurement.latency) is not None:
        item.user_properties.append(("truemem_p99_ms", latency.p99.value))
    if result.exit_code:
        from ..answer.outputs import plain_text
        from .pytest_marker import in_words_of_the_marker

        pytest.fail(in_words_of_the_marker(plain_text(result)), pytrace=False)
    return outcome


def _marker(item: pytest.Item) -> MemoryMarker:
    marker = item.get_closest_marker("memory")
    example = '@pytest.mark.memory(handler="app.py:handler")'
    if marker is None:
        _refuse(f"which function? Try {example}")
    from .pytest_marker import MemoryMarker

    try:
        with _refusing("@pytest.mark.memory "):
            return MemoryMarker(*marker.args, **marker.kwargs)
    except TypeError as error:
        _refuse(f"@pytest.mark.memory {str(error).partition(') ')[2]}. Try {example}")


def _run(item: pytest.Item, marker: MemoryMarker) -> Result:
    """Make the run that the marker asks for."""
    from ..answer.limits import LimitsDecision
    from ..explain.run import explained
    from ..runs.here import measure, need_explicable

    was = _baseline(item, marker)
    with _refusing():
        target, events = marker.target(_folders(item)), marker.events(item.config.rootpath)
        if marker.explain:
            need_explicable(target)
        measurement = measure(target, events, marker.plan, LimitsDecision(marker.limits))
        result = _result(measurement, marker, was, invoked_by_test=False)
        can_explain = target.is_explicable or measurement.is_jvm
        if marker.explain or (marker.explain is None and can_explain and result.grows):
            why = explained(target, events, measurement, progress=lambda *_: None)
            result = result.explained(why)
    return result


@contextmanager
def _refusing(prefix: str = "") -> Generator[None]:
    """Fail the test with one line for a BadInput."""
    from ..support.bad_input import BadInput

    try:
        yield
    except BadInput as problem:
        _refuse(f"{prefix}{problem}")


def _baseline(item: pytest.Item, marker: MemoryMarker) -> Baseline | None:
    with _refusing():
        return marker.baseline(item.config.rootpath)


def _result(measurement: Measurement, marker: MemoryMarker, was: Baseline | None, *, invoked_by_test: bool) -> Result:
    from dataclasses import replace

    from ..answer.limits import find
    from ..answer.result import Result
    from ..judge.finding import commands_local
    from ..support.typed_command import Command

    measurement = replace(
        measurement, commands=replace(commands_local(Command("check", (marker.handler,))), with_event="")
    )
    if was is not None:
        measurement = replace(measurement, notices=(*measurement.notices, *was.differs(measurement.about)))
    checks = find(measurement, marker.limits, was)
    if invoked_by_test:  # a test of three invocations did not ask whether they grow
        checks = [each for each in checks if (each.name, each.outcome) != ("growth", "unknown")]
    return Result(measurement, checks, was=was)


def _folders(item: pytest.Item) -> list[Path]:
    """Folders to which a handler's path may be relative."""
    return [item.path.parent, item.config.rootpath]


def _refuse(why: str) -> NoReturn:
    """Fail the test with one line, without a traceback, because it cannot be run."""
    from ..support.untrusted_text import visible
    from .pytest_marker import in_words_of_the_marker

    raise pytest.fail.Exception(f"truemem: {visible(in_words_of_the_marker(why))}", pytrace=False) from None
