"""Each scenario of `truemem local run --scenario`, played once: what the platform's events tell."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from truemem_workbench.local import Function, Settings
from truemem_workbench.local.configuration.function import OOM_HANDLER
from truemem_workbench.local.running.scenario_context import NotAsDescribed, ScenarioContext
from truemem_workbench.local.running.scenarios import BYSTANDER, SCENARIOS
from truemem_workbench.local.running.session import Invocation

from tests.local.conftest import BOOTSTRAP, HANDLER, RECORDER, RUN, Local, interrupted, kinds, needs_cgroups, run

INIT = ["initStart", "telemetrySubscription", "initRuntimeDone", "extension", "initReport"]
WARM = ["start", "runtimeDone", "report"]
AGAIN = [*INIT, *WARM]
"""After a reset: init, by AWS's code before the start of the invocation that pays for it."""
TWO = ["initStart", "telemetrySubscription", "initRuntimeDone", "extension", "extension", "initReport"]
"""An init with the bystander beside the recorder."""


class Silent:
    def step(self, text: str) -> None: ...

    def response(self, invocation: Invocation) -> None: ...


def heard(played: Local) -> list[str]:
    """Types of the platform's events that the recorder was sent, in order."""
    return kinds(played.telemetry())


def outcomes(played: Local, kind: str) -> list[tuple[str, str | None]]:
    """Status and error type."""
    return [(record["status"], record.get("errorType")) for record in played.of_type(kind)]


Play = Callable[..., Local]


@pytest.fixture
def play() -> Play:
    def play(
        name: str,
        *,
        spec: str = HANDLER,
        behaviour: dict[str, Any] | None = None,
        event: object = None,
        **settings: Any,
    ) -> Local:
        scenario = SCENARIOS[name]
        function = scenario.function(Function.from_spec(spec))
        extensions = {"recorder": RECORDER} | ({"bystander": BYSTANDER} if scenario.extensions else {})
        variables = {"RECORDER": json.dumps({"types": ["platform"]} | (behaviour or {}))}
        chosen = Settings(**{"extensions": extensions, "environment": variables, **scenario.settings, **settings})
        grows = function.command[-1] == OOM_HANDLER
        local = Local(function, chosen)
        context = ScenarioContext(local, chosen, Silent(), event=event or {}, gap_s=0.1, grows=grows)
        if scenario.held_in_init:
            context.hold_next_init()
        with local:
            scenario.play(context)
        return local

    return play


OUT_OF_MEMORY = ("error", "Runtime.OutOfMemory")


@pytest.mark.parametrize(
    ("name", "settings", "outcome"),
    [
        ("timeout", {"timeout_s": 4}, ("timeout", None)),  # the next invocation has an init within it
        ("crash", {}, ("error", "Runtime.ExitError")),
        ("exit", {}, ("error", "Runtime.ExitError")),
        ("extension-crash", {}, ("error", "Extension.Crash")),
        pytest.param("out-of-memory", {"memory_mib": 128}, OUT_OF_MEMORY, marks=needs_cgroups),
        pytest.param(  # beside a bootstrap, another process takes the memory
            "out-of-memory", {"memory_mib": 128, "spec": str(BOOTSTRAP)}, OUT_OF_MEMORY, marks=needs_cgroups
        ),
    ],
    ids=["timeout", "crash", "exit", "extension-crash", "out-of-memory", "out-of-memory of a bootstrap"],
)
def test_a_death_is_reported_and_the_environment_reset(
    play: Play, name: str, settings: dict[str, Any], outcome: tuple[str, str | None]
) -> None:
    played = play(name, **settings)
    init = TWO if name == "extension-crash" else INIT
    assert played.kinds() == [*init, *WARM, *init, *WARM]
    assert outcomes(played, "runtimeDone") == [outcome, ("success", None)]
    assert outcomes(played, "report") == [outcome, ("success", None)]
    assert played.shutdown_reasons() == ["timeout" if name == "timeout" else "failure", "spindown"]


def test_init_failure(play: Play) -> None:
    played = play("init-failure")
    assert played.kinds() == [*INIT, *AGAIN, *AGAIN]
    assert [record["phase"] for record in played.of_type("initStart")] == ["init", "invoke", "invoke"]
    assert [status for status, _ in outcomes(played, "initReport")] == ["error", "error", "success"]
    assert played.shutdown_reasons() == ["failure", "failure", "spindown"]


def test_suppressed_init(play: Play) -> None:
    played = play("suppressed-init")
    assert played.kinds() == [*INIT, *AGAIN]
    assert [record["phase"] for record in played.of_type("initReport")] == ["init", "invoke"]
    assert "initDurationMs" not in played.of_type("report")[0]["metrics"]
    assert played.shutdown_reasons() == ["failure", "spindown"]


def test_long_freeze(play: Play) -> None:
    played = play("long-freeze")
    assert played.kinds() == [*INIT, *WARM, *WARM]
    stamps = [event["time"] for event in played.events if event["type"] in ("platform.report", "platform.start")]
    assert stamps == sorted(stamps)
    assert played.shutdown_reasons() == ["spindown"]


def test_provisioned_gap(play: Play) -> None:
    played = play("provisioned-gap")
    assert played.kinds() == [*INIT, *WARM, *WARM]
    (init,) = played.of_type("initReport")
    assert init["initializationType"] == "provisioned-concurrency"


def test_snap_start(play: Play) -> None:
    played = play("snap-start")
    assert played.kinds() == [*INIT, "restoreStart", "restoreRuntimeDone", "restoreReport", *WARM, *WARM]
    assert heard(played).count("initStart") == 2  # at publish, and again after the restore


def test_spindown(play: Play) -> None:
    played = play("spindown")
    assert played.shutdown_reasons() == ["spindown"]
    assert heard(played)[-1] == "report"  # it comes with SHUTDOWN, not before


def test_report_lost(play: Play) -> None:
    played = play("report-lost")
    assert played.kinds() == [*INIT, *WARM, *AGAIN]  # it was made
    assert outcomes(played, "report") == [("error", "Runtime.ExitError"), ("success", None)]
    (delivered,) = (event for event in played.telemetry() if event["type"] == "platform.report")
    assert delivered["record"]["status"] == "success"


def test_telemetry_out_of_order(play: Play) -> None:
    played = play("telemetry-out-of-order")
    assert played.kinds() == [*INIT, *WARM, *WARM, *WARM]
    assert sorted(heard(played)) == sorted(played.kinds())
    assert heard(played) != played.kinds()
    batches = [entry["telemetry"] for entry in played.recorded() if "telemetry" in entry]
    for batch in batches:
        stamps = [event["time"] for event in batch]
        assert stamps == sorted(stamps, reverse=True)


def test_slow_telemetry(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("truemem_workbench.local.apis.telemetry_api.SLOW_MS", 600_000)
    played = play("slow-telemetry")
    entries = played.recorded()
    ended = next(n for n, entry in enumerate(entries) if entry.get("event", {}).get("eventType") == "SHUTDOWN")
    told = [n for n, entry in enumerate(entries) if "telemetry" in entry]
    assert told
    assert min(told) > ended  # nothing came while it ran
    assert heard(played) == played.kinds()


@pytest.mark.parametrize(
    ("name", "settings", "said"),
    [
        ("crash", {"event": {"exit": 3}}, "ended before the function answered"),
        ("spindown", {"behaviour": {"ignore_shutdown": True}}, "recorder ended by itself, with 0 and in time"),
    ],
    ids=["crash", "spindown"],
)
def test_a_scenario_that_goes_otherwise_says_how(play: Play, name: str, settings: dict[str, Any], said: str) -> None:
    with pytest.raises(NotAsDescribed, match=said):
        play(name, **settings)


@pytest.mark.parametrize(("event", "code"), [("{}", 0), ('{"exit": 3}', 1)])
def test_the_command_plays_one_and_says_how_it_went(event: str, code: int) -> None:
    done = run(HANDLER, "--no-sidecar", "--json", "--scenario", "crash", "--event", event)
    assert done.returncode == code, done.stderr
    last = json.loads(done.stdout.splitlines()[-1])["scenario"]
    assert (last["name"], last["asDescribed"]) == ("crash", code == 0)


def test_ctrl_c_in_the_midst_of_one() -> None:
    command = [*RUN, HANDLER, "--no-sidecar", "--json", "--timeout", "600", "--scenario", "timeout"]
    assert interrupted(command, "is the function's timeout") == 130
