"""From registered to serving: read the settings, subscribe to telemetry, make the parts. All before the first `next`,
which ends the init phase and closes the subscription."""

from __future__ import annotations

import gc
import posix

from ..config import Config
from ..linux.cgroup import MemorySource
from ..linux.oom_kills import OomKills
from ..linux.oom_score import OomScore
from ..linux.proc_text import Gone, parse_last_pid
from ..linux.process_table import ProcessTable
from ..linux.procfs import Procfs
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
from ..support.clock import Clock
from ..support.log import log, set_level
from ..support.private_file import path_in
from .on_demand import OnDemand
from .parts import Parts

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
    telemetry_server, unsubscribed = _subscribe(api, managed)
    proc = Procfs()
    oom_score = OomScore(proc, config.oom_score_adj)
    table = ProcessTable(proc, address, folder or "/opt/extensions", oom_score, parse_last_pid(loadavg))
    if proxy is not None:
        table.proxy_address = proxy.address
    recorder = Recorder(table, proc, config.memory_mib * 1024)
    level = MemorySource(proc)
    environment_memory, kills = EnvironmentMemory(table, level), OomKills(level)
    about = config, table, recorder, environment_memory, kills
    parts = Parts(api, telemetry_server, unsubscribed, *about, proxy, Clock())
    if managed:
        from .managed_instances import ManagedInstances

        gc.freeze()
        gc.enable()
        ManagedInstances(parts).run()
        return
    slots = SLOTS + (VALUES if config.aggregate_s else 0)
    journal = Journal(path_in(posix.environ, name) if config.journal else "", slots)
    environment_state = _environment_state(journal, proc)
    killed = kills.since(environment_state.kills)
    environment_state.kills = kills.seen
    lifecycle = OnDemand(parts, environment_state, journal)
    gc.freeze()  # these objects stay: the collector need not look at them again
    gc.enable()  # off since the start where this is the layer's executable
    lifecycle.run(killed)


def _environment_state(journal: Journal, proc: Procfs) -> EnvironmentState:
    """What an earlier process of this environment has left, else a new one."""
    try:
        boot = proc.text("sys/kernel/random/boot_id", 64).decode("latin-1").strip()
    except Gone:
        boot = ""
    environment_state = EnvironmentState(boot)
    if not environment_state.resume_from(journal.history) and not journal.empty():
        journal.forget()
    return environment_state


def _subscribe(api: ExtensionsApi, managed: bool) -> tuple[TelemetryServer | None, str]:
    """A server that telemetry is delivered to, or None and the reason why there is none."""
    try:
        server = TelemetryServer()
    except OSError as error:
        return None, f"no port to listen on: {error.strerror}"
    try:
        wanted = (MANAGED_SCHEMA, MANAGED_TIMEOUT_MS) if managed else (TELEMETRY_SCHEMA, TIMEOUT_MS)
        api.subscribe(server.port, server.path, *wanted)
    except ApiError as error:
        return None, "not supported here" if error.status == 202 else str(error)
    return server, ""
