"""From registered to serving: settings, telemetry, and what there is to measure with. All of it before the
first `next`, which ends the init phase and closes the subscription."""

from __future__ import annotations

import gc
import posix

from ..config import Config
from ..linux.cgroup import MemorySource
from ..linux.oom_kills import OomKills
from ..linux.oom_score import OomScore
from ..linux.process_table import ProcessTable
from ..linux.procfs import Gone, Procfs, parse_last_pid
from ..measure.environment_memory import EnvironmentMemory
from ..measure.recorder import Recorder
from ..platform.extensions_api import (
    MANAGED_SCHEMA,
    MANAGED_TIMEOUT_MS,
    TELEMETRY_SCHEMA,
    TIMEOUT_MS,
    ApiError,
    ExtensionsApi,
)
from ..platform.telemetry_server import TelemetryServer
from ..records.emf import VALUES
from ..records.environment_state import EnvironmentState
from ..records.journal import SLOTS, Journal
from ..support.log import log, set_level
from ..support.private_file import path_in
from .on_demand import Sidecar

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..platform.runtime_proxy import RuntimeProxy


def start(
    api: ExtensionsApi,
    address: str,
    folder: str,
    name: str,
    managed: bool,
    loadavg: bytes = b"",
    proxy: RuntimeProxy | None = None,
) -> None:
    """Registered already, as the file `name` of `folder`: subscribe, look around, and serve until SHUTDOWN.
    `managed` says that this is on Managed Instances, `loadavg` is from before that. `proxy` serves the runtime in exact
    mode."""
    config = Config(posix.environ)
    set_level(config.log_level)
    for problem in config.problems:
        log("warn", problem)
    listener, unsubscribed = _subscribe(api, managed)
    proc = Procfs()
    oom_score = OomScore(proc, config.oom_score_adj)
    table = ProcessTable(proc, address, folder or "/opt/extensions", oom_score, parse_last_pid(loadavg))
    if proxy is not None:
        table.proxy_address = proxy.address
    recorder = Recorder(table, proc, config.memory_mib * 1024)
    level = MemorySource(proc)
    if managed:
        from .managed_instances import Managed

        gc.freeze()
        gc.enable()
        surroundings, kills = EnvironmentMemory(table, level), OomKills(level)
        Managed(api, listener, unsubscribed, config, table, recorder, surroundings, kills, proxy).run()
        return
    kills = OomKills(level)
    slots = SLOTS + (VALUES if config.aggregate_s else 0)
    journal = Journal(path_in(posix.environ, name) if config.journal else "", slots)
    history = _history(journal, proc)
    killed = kills.since(history.kills)
    history.kills = kills.seen
    sidecar = Sidecar(
        api,
        listener,
        unsubscribed,
        config,
        table,
        recorder,
        EnvironmentMemory(table, level),
        history,
        journal,
        kills,
        proxy,
    )
    gc.freeze()  # what there is by now stays, and need not be looked at again
    gc.enable()  # off since the start where this is the layer's executable
    sidecar.run(killed)


def _history(journal: Journal, proc: Procfs) -> EnvironmentState:
    """What an earlier process of this environment has left, else a new one."""
    try:
        boot = proc.text("sys/kernel/random/boot_id", 64).decode("latin-1").strip()
    except Gone:
        boot = ""
    history = EnvironmentState(boot)
    if not history.resume_from(journal.history) and not journal.empty():
        journal.forget()
    return history


def _subscribe(api: ExtensionsApi, managed: bool) -> tuple[TelemetryServer | None, str]:
    """A listener that telemetry is delivered to, or None and the reason why there is none."""
    try:
        listener = TelemetryServer()
    except OSError as error:
        return None, f"no port to listen on: {error.strerror}"
    try:
        wanted = (MANAGED_SCHEMA, MANAGED_TIMEOUT_MS) if managed else (TELEMETRY_SCHEMA, TIMEOUT_MS)
        api.subscribe(listener.port, listener.path, *wanted)
    except ApiError as error:
        return None, "not supported here" if error.status == 202 else str(error)
    return listener, ""
