"""Each scenario of `truemem local run --scenario`, played once: what the platform's events tell."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from truemem_workbench.local import Function, Settings
from truemem_workbench.local.configuration.function import OOM_HANDLER
from truemem_workbench.local.running.scenario_context import NotAsDescribed, ScenarioContext
from truemem_workbench.local.running.scenarios import BYSTANDER, SCENARIOS
from truemem_workbench.local.running.session import Invocation

from tests.local.conftest import APP, HERE, RECORDER, Local, interrupted, needs_cgroups

INIT = ["initStart", "telemetrySubscription", "initRuntimeDone", "extension", "initReport"]
WARM = ["start", "runtimeDone", "report"]
AGAIN = [*INIT, *WARM]
"""After a reset: init, by AWS's code before the start of the invocation that pays for it."""
TWO = ["initStart", "telemetrySubscription", "initRuntimeDone", "extension", "extension", "initReport"]
"""An init with the bystander beside the recorder."""


class Silent:
    def step(self, text: str) -> None: ...

    def response(self, invocation: Invocation) -> None: ...


@dataclass
class Played:
    local: Local
    kinds: list[str] = field(default_factory=list)

    def shutdowns(self) -> list[str]:
        """Reasons, as the recorder read them."""
        entries = (entry.get("event", {}) for entry in self.local.recorded())
        return [event["shutdownReason"] for event in entries if event.get("eventType") == "SHUTDOWN"]

    def heard(self) -> list[str]:
        """Types of the platform's events that the recorder was sent, in order."""
        return [event["type"].removeprefix("platform.") for event in self.local.telemetry()]

    def outcomes(self, kind: str) -> list[tuple[str, str | None]]:
        """Status and error type."""
        return [(record["status"], record.get("errorType")) for record in self.local.of_type(f"platform.{kind}")]


Play = Callable[..., Played]


@pytest.fixture
def play() -> Play:
    def play(
        name: str,
        *,
        spec: str = f"{APP}:handler",
        behaviour: dict[str, Any] | None = None,
        event: object = None,
        **settings: Any,
    ) -> Played:
        scenario = SCENARIOS[name]
        function = Function.from_spec(spec)
        extensions = {"recorder": RECORDER} | ({"bystander": BYSTANDER} if scenario.extensions else {})
        variables = {"RECORDER": json.dumps({"types": ["platform"]} | (behaviour or {}))}
        chosen = Settings(**{"extensions": extensions, "environment": variables, **scenario.settings, **settings})
        played = scenario.function(function)
        local = Local(played, chosen)
        context = ScenarioContext(
            local, chosen, Silent(), event=event or {}, gap_s=0.1, grows=played.command[-1] == OOM_HANDLER
        )
        if scenario.held_in_init:
            context.hold_next_init()
        with local:
            scenario.play(context)
        return Played(local, [event["type"].removeprefix("platform.") for event in local.events])

    return play


def test_timeout(play: Play) -> None:
    played = play("timeout", timeout_s=2)  # the next invocation has an init within it
    assert played.kinds == [*INIT, *WARM, *AGAIN]
    assert played.outcomes("runtimeDone") == [("timeout", None), ("success", None)]
    assert played.outcomes("report") == [("timeout", None), ("success", None)]
    assert played.shutdowns() == ["timeout", "spindown"]


@pytest.mark.parametrize(
    ("name", "error_type", "settings"),
    [
        ("crash", "Runtime.ExitError", {}),
        ("exit", "Runtime.ExitError", {}),
        ("extension-crash", "Extension.Crash", {}),
        pytest.param("out-of-memory", "Runtime.OutOfMemory", {"memory_mib": 128}, marks=needs_cgroups),
        pytest.param(  # beside a bootstrap, another process takes the memory
            "out-of-memory",
            "Runtime.OutOfMemory",
            {"memory_mib": 128, "spec": str(HERE / "functions" / "bootstrap")},
            marks=needs_cgroups,
        ),
    ],
    ids=["crash", "exit", "extension-crash", "out-of-memory", "out-of-memory of a bootstrap"],
)
def test_a_death_is_reported_and_the_environment_reset(
    play: Play, name: str, error_type: str, settings: dict[str, Any]
) -> None:
    played = play(name, **settings)
    init = TWO if name == "extension-crash" else INIT
    assert played.kinds == [*init, *WARM, *init, *WARM]
    for kind in ("runtimeDone", "report"):
        assert played.outcomes(kind) == [("error", error_type), ("success", None)]
    assert played.shutdowns() == ["failure", "spindown"]


def test_init_failure(play: Play) -> None:
    played = play("init-failure")
    assert played.kinds == [*INIT, *AGAIN, *AGAIN]
    phases = [record["phase"] for record in played.local.of_type("platform.initStart")]
    assert phases == ["init", "invoke", "invoke"]
    assert [status for status, _ in played.outcomes("initReport")] == ["error", "error", "success"]
    assert played.shutdowns() == ["failure", "failure", "spindown"]


def test_suppressed_init(play: Play) -> None:
    played = play("suppressed-init")
    assert played.kinds == [*INIT, *AGAIN]
    assert [record["phase"] for record in played.local.of_type("platform.initReport")] == ["init", "invoke"]
    assert "initDurationMs" not in played.local.of_type("platform.report")[0]["metrics"]
    assert played.shutdowns() == ["failure", "spindown"]


def test_long_freeze(play: Play) -> None:
    played = play("long-freeze")
    assert played.kinds == [*INIT, *WARM, *WARM]
    stamps = [event["time"] for event in played.local.events if event["type"] in ("platform.report", "platform.start")]
    assert stamps == sorted(stamps)
    assert played.shutdowns() == ["spindown"]


def test_provisioned_gap(play: Play) -> None:
    played = play("provisioned-gap")
    assert played.kinds == [*INIT, *WARM, *WARM]
    kinds = {record["initializationType"] for record in played.local.of_type("platform.initReport")}
    assert kinds == {"provisioned-concurrency"}


def test_snap_start(play: Play) -> None:
    played = play("snap-start")
    assert played.kinds == [*INIT, "restoreStart", "restoreRuntimeDone", "restoreReport", *WARM, *WARM]
    assert played.heard().count("initStart") == 2  # at publish, and again after the restore


def test_spindown(play: Play) -> None:
    played = play("spindown")
    assert played.shutdowns() == ["spindown"]
    assert played.heard()[-1] == "report"  # it comes with SHUTDOWN, not before


def test_report_lost(play: Play) -> None:
    played = play("report-lost")
    assert played.kinds == [*INIT, *WARM, *AGAIN]  # it was made
    assert played.outcomes("report") == [("error", "Runtime.ExitError"), ("success", None)]
    heard = [event for event in played.local.telemetry() if event["type"] == "platform.report"]
    assert [event["record"]["status"] for event in heard] == ["success"]


def test_telemetry_out_of_order(play: Play) -> None:
    played = play("telemetry-out-of-order")
    assert played.kinds == [*INIT, *WARM, *WARM, *WARM]
    assert sorted(played.heard()) == sorted(played.kinds)
    assert played.heard() != played.kinds
    batches = [entry["telemetry"] for entry in played.local.recorded() if "telemetry" in entry]
    for batch in batches:
        stamps = [event["time"] for event in batch]
        assert stamps == sorted(stamps, reverse=True)


def test_slow_telemetry(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("truemem_workbench.local.apis.telemetry_api.SLOW_MS", 600_000)
    played = play("slow-telemetry")
    entries = played.local.recorded()
    ended = next(n for n, entry in enumerate(entries) if entry.get("event", {}).get("eventType") == "SHUTDOWN")
    told = [n for n, entry in enumerate(entries) if "telemetry" in entry]
    assert told
    assert min(told) > ended  # nothing came while it ran
    assert played.heard() == played.kinds


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


RUN = [sys.executable, "-m", "truemem_workbench.cli", "local", "run"]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*RUN, *arguments], capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize(("event", "code"), [("{}", 0), ('{"exit": 3}', 1)])
def test_the_command_plays_one_and_says_how_it_went(event: str, code: int) -> None:
    done = run(f"{APP}:handler", "--no-sidecar", "--json", "--scenario", "crash", "--event", event)
    assert done.returncode == code, done.stderr
    last = json.loads(done.stdout.splitlines()[-1])["scenario"]
    assert (last["name"], last["asDescribed"]) == ("crash", code == 0)


def test_ctrl_c_in_the_midst_of_one() -> None:
    command = [*RUN, f"{APP}:handler", "--no-sidecar", "--json", "--timeout", "600", "--scenario", "timeout"]
    assert interrupted(command, "is the function's timeout") == 130


def test_help_describes_every_scenario() -> None:
    shown = run("--help").stdout
    for name, scenario in SCENARIOS.items():
        assert name in shown
        assert scenario.description in shown
