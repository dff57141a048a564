"""pytest: a test fails where its function's memory breaks a limit.

    @pytest.mark.memory(handler="app.py:handler", invocations=200, max_drift_kib=4, max_peak_mib=256)
    def test_memory(): ...

It is loaded into every test run of whoever has it installed, so it imports nothing of ours until a test asks.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping, Sequence

    from truemem_workbench.check.limits import Limits
    from truemem_workbench.check.local_run import Run
    from truemem_workbench.check.measurement import Measurement
    from truemem_workbench.check.result import Result
    from truemem_workbench.check.target import Target

MARKER = (
    "memory(handler, invocations=200, event={}, events=None, warm_up=100, max_drift_kib=None,"
    " max_drift_per_minute_kib=None, max_peak_mib=None, max_current_mib=None, memory_mib=None, timeout_s=None, env={},"
    " quick=False, allow_errors=False): run the function under truemem's local Lambda, and fail the test where its"
    " memory breaks a limit. Without a limit on drift it must not grow. With the fixture `lambda_environment`, the test"
    " itself invokes."
)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", MARKER)


class Asked:
    """The marker's arguments."""

    def __init__(
        self,
        handler: str,
        *,
        invocations: int = 200,
        event: object = None,
        events: Sequence[object] | None = None,
        warm_up: int | None = None,
        max_drift_kib: float | None = None,
        max_drift_per_minute_kib: float | None = None,
        max_peak_mib: float | None = None,
        max_current_mib: float | None = None,
        memory_mib: int | None = None,
        timeout_s: float | None = None,
        env: Mapping[str, str] | None = None,
        quick: bool = False,
        allow_errors: bool = False,
    ) -> None:
        from truemem_workbench.check.limits import Limits

        self.handler = handler
        self.invocations = invocations
        self.events = list(events) if events else [{} if event is None else event]
        self.warm_up = warm_up
        self.quick = quick
        self._given = {"memory_mib": memory_mib, "timeout_s": timeout_s}
        self._env = env or {}
        self.limits: Limits = Limits(
            drift_kib=max_drift_kib,
            drift_per_minute_kib=max_drift_per_minute_kib,
            peak_mib=max_peak_mib,
            current_mib=max_current_mib,
            errors=allow_errors,
        )

    def target(self, item: pytest.Item) -> Target:
        """The function; its path is seen from the test's file, or from pytest's root. Raises BadInput."""
        from dataclasses import replace

        from truemem_workbench.check.target import resolve

        path, separator, name = self.handler.rpartition(":")
        path = path or name
        folders = (item.path.parent, item.config.rootpath)
        found = next((folder / path for folder in folders if (folder / path).exists()), path)
        resolved = resolve(f"{found}:{name}" if separator else str(found))
        given: dict[str, Any] = {name: value for name, value in self._given.items() if value is not None}
        environment = {**resolved.environment, **self._env}
        return replace(resolved, spec=self.handler, environment=environment, **given)


RESULT = pytest.StashKey["Result"]()


@pytest.fixture
def truemem(request: pytest.FixtureRequest) -> Result:
    """What the marker's run has measured, for a test's own assertions: `truemem.measurement.peak`, `.verdict` ..."""
    item = request.node
    if "lambda_environment" in item.fixturenames:
        _refuse("the fixtures truemem and lambda_environment are two runs. Take one of them")
    result = _run(item, _asked(item))
    item.stash[RESULT] = result
    return result


@pytest.fixture
def lambda_environment(request: pytest.FixtureRequest) -> Iterator[Run]:
    """The marker's function under a local Lambda: `lambda_environment.invoke(event)`. Limits are checked at the end."""
    from truemem_workbench.check.local_run import Run
    from truemem_workbench.local import BadInput

    asked = _asked(request.node)
    with ExitStack() as stack:
        try:
            run = stack.enter_context(Run(asked.target(request.node), quick=asked.quick))
        except BadInput as problem:
            _refuse(str(problem))
        yield run


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    outcome = yield
    if item.get_closest_marker("memory") is None:
        return outcome
    run = getattr(item, "funcargs", {}).get("lambda_environment")
    asked = _asked(item)
    if run is not None:
        result = _result(run.measurement(asked.warm_up), asked.limits, invoked_by_test=True)
    else:
        result = item.stash[RESULT] if RESULT in item.stash else _run(item, asked)
    if result.measurement.peak is not None:
        item.user_properties.append(("truemem_peak_mib", round(result.measurement.peak[1], 2)))
    if result.exit_code:
        pytest.fail(result.text(), pytrace=False)
    return outcome


def _asked(item: pytest.Item) -> Asked:
    marker = item.get_closest_marker("memory")
    example = '@pytest.mark.memory(handler="app.py:handler")'
    if marker is None:
        _refuse(f"which function? Try {example}")
    try:
        return Asked(*marker.args, **marker.kwargs)
    except TypeError as error:
        _refuse(f"@pytest.mark.memory {str(error).partition(') ')[2]}. Try {example}")


def _run(item: pytest.Item, asked: Asked) -> Result:
    """The run that the marker asks for."""
    from truemem_workbench.check import drive, local_run
    from truemem_workbench.local import BadInput

    try:
        measurement = local_run.measure(
            asked.target(item),
            asked.events,
            invocations=asked.invocations,
            warm_up=drive.WARM_UP if asked.warm_up is None else asked.warm_up,
            quick=asked.quick,
            progress=lambda _, __, ___: None,
        )
    except BadInput as problem:
        _refuse(str(problem))
    return _result(measurement, asked.limits, invoked_by_test=False)


def _result(measurement: Measurement, limits: Limits, *, invoked_by_test: bool) -> Result:
    from truemem_workbench.check.limits import find
    from truemem_workbench.check.result import Result

    findings = find(measurement, limits)
    if invoked_by_test:  # a test of three invocations did not ask whether they grow
        findings = [each for each in findings if (each.name, each.outcome) != ("growth", "unknown")]
    return Result(measurement, findings)


def _refuse(why: str) -> NoReturn:
    """The test cannot be run: one line, without the exception that it comes from."""
    raise pytest.fail.Exception(f"truemem: {why}", pytrace=False) from None
