"""Each scenario of `truemem local run --scenario`, played once: the platform's events."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from truemem_workbench.local import Function, Settings
from truemem_workbench.local.configuration.function import OOM_HANDLER
from truemem_workbench.local.scenario_context import NotAsDescribed, ScenarioContext
from truemem_workbench.local.scenarios import BYSTANDER, SCENARIOS
from truemem_workbench.local.session import Invocation

from tests.local.conftest import BOOTSTRAP, HANDLER, RECORDER, Local, LocalRun, kinds, needs_cgroups

INIT = ["initStart", "telemetrySubscription", "initRuntimeDone", "extension", "initReport"]
TWO = ["initStart", "telemetrySubscription", "initRuntimeDone", "extension", "extension", "initReport"]
"""An init with the bystander beside the recorder."""
WARM = ["start", "runtimeDone", "report"]
AGAIN = [*INIT, *WARM]
"""After a reset: init, by AWS's code before the start of the invocation that pays for it."""
RESTORE = ["restoreStart", "restoreRuntimeDone", "restoreReport"]
EXITED = ("error", "Runtime.ExitError")
OUT_OF_MEMORY = ("error", "Runtime.OutOfMemory")
WELL = ("success", None)
SHUTDOWN = "'eventType': 'SHUTDOWN'"


class Silent:
    def step(self, text: str) -> None: ...

    def response(self, invocation: Invocation) -> None: ...


def outcomes(played: Local, kind: str) -> list[tuple[str, str | None]]:
    """Status and error type."""
    return [(record["status"], record.get("errorType")) for record in played.of_type(kind)]


Play = Callable[..., Local]


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch) -> Play:
    monkeypatch.setattr("truemem_workbench.local.apis.telemetry_api.SLOW_MS", 600_000)

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


PLAYED: list[Any] = [
    # name, settings, kinds of events, outcomes of the reports, reasons of SHUTDOWN; an init is within the 4 s
    ("timeout", {"timeout_s": 4}, [*INIT, *WARM, *AGAIN], [("timeout", None), WELL], ["timeout", "spindown"]),
    ("crash", {}, [*INIT, *WARM, *AGAIN], [EXITED, WELL], ["failure", "spindown"]),
    ("exit", {}, [*INIT, *WARM, *AGAIN], [EXITED, WELL], ["failure", "spindown"]),
    ("extension-crash", {}, [*TWO, *WARM] * 2, [("error", "Extension.Crash"), WELL], ["failure", "spindown"]),
    ("init-failure", {}, [*INIT, *AGAIN, *AGAIN], [EXITED, WELL], ["failure", "failure", "spindown"]),
    ("suppressed-init", {}, [*INIT, *AGAIN], [WELL], ["failure", "spindown"]),
    ("long-freeze", {}, [*INIT, *WARM, *WARM], [WELL, WELL], ["spindown"]),
    ("provisioned-gap", {}, [*INIT, *WARM, *WARM], [WELL, WELL], ["spindown"]),
    ("snap-start", {}, [*INIT, *RESTORE, *WARM, *WARM], [WELL, WELL], ["spindown"]),
    ("spindown", {}, [*INIT, *WARM], [WELL], ["spindown"]),
    ("report-lost", {}, [*INIT, *WARM, *AGAIN], [EXITED, WELL], ["failure", "spindown"]),
    ("telemetry-out-of-order", {}, [*INIT, *WARM * 3], [WELL] * 3, ["spindown"]),
    ("slow-telemetry", {}, [*INIT, *WARM * 3], [WELL] * 3, ["spindown"]),
]
for spec in (HANDLER, str(BOOTSTRAP)):  # beside a bootstrap, another process takes the memory
    row = {"memory_mib": 128, "spec": spec}, [*INIT, *WARM, *AGAIN], [OUT_OF_MEMORY, WELL], ["failure", "spindown"]
    PLAYED.append(pytest.param("out-of-memory", *row, marks=needs_cgroups))


@pytest.mark.parametrize(("name", "settings", "order", "reports", "reasons"), PLAYED)
def test_a_scenario_goes_as_it_is_described(
    play: Play, name: str, settings: dict[str, Any], order: list[str], reports: list[Any], reasons: list[str]
) -> None:
    played = play(name, **settings)
    assert played.kinds() == order
    assert outcomes(played, "report") == outcomes(played, "runtimeDone") == reports
    assert played.shutdown_reasons() == reasons
    stamps = [event["time"] for event in played.events]
    assert stamps == sorted(stamps)
    sent = kinds(played.telemetry())  # to the recorder
    match name:
        case "init-failure":
            assert [record["phase"] for record in played.of_type("initStart")] == ["init", "invoke", "invoke"]
            assert [status for status, _ in outcomes(played, "initReport")] == ["error", "error", "success"]
        case "suppressed-init":
            assert [record["phase"] for record in played.of_type("initReport")] == ["init", "invoke"]
            assert "initDurationMs" not in played.of_type("report")[0]["metrics"]
        case "snap-start":
            assert sent.count("initStart") == 2  # at publish, and again after the restore
        case "spindown":
            assert sent[-1] == "report"  # it comes with SHUTDOWN, not before
        case "report-lost":
            (delivered,) = (event for event in played.telemetry() if event["type"] == "platform.report")
            assert delivered["record"]["status"] == "success"
        case "telemetry-out-of-order":
            assert (sorted(sent), sent == order) == (sorted(order), False)
            for batch in [entry["telemetry"] for entry in played.recorded() if "telemetry" in entry]:
                times = [event["time"] for event in batch]
                assert times == sorted(times, reverse=True)
        case "slow-telemetry":  # nothing comes while it runs
            first = next(entry for entry in played.recorded() if "telemetry" in entry or SHUTDOWN in str(entry))
            assert SHUTDOWN in str(first)
            assert sent == order


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
def test_the_command_plays_one_and_says_how_it_went(local_run: LocalRun, event: str, code: int) -> None:
    done = local_run(HANDLER, "--no-sidecar", "--json", "--scenario", "crash", "--event", event)
    assert done.returncode == code, done.stderr
    last = json.loads(done.stdout.splitlines()[-1])["scenario"]
    assert (last["name"], last["asDescribed"]) == ("crash", code == 0)
