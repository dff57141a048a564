"""From registered to serving: subscribe to telemetry, look at the processes, ask for the first event, make all else.

The first `next` ends the init phase and closes the subscription. A runtime that starts in milliseconds waits for it, so
it goes out as soon as the first look at the processes is done. That look is made while the platform answers the
subscription.
"""

from __future__ import annotations

import gc
import posix

from ..config import OFF, Config
from ..linux.cgroup import MemorySource
from ..linux.oom_kills import OomKills
from ..linux.oom_score import OomScore
from ..linux.proc_text import Gone, parse_last_pid
from ..linux.process_table import ProcessTable
from ..linux.procfs import Procfs
from ..measure.environment_memory import EnvironmentMemory
from ..measure.recorder import Recorder
from ..measure.resources import Resources, TmpDisk
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
from ..support.log import log, reason, set_level
from ..support.private_file import path_in, tmp_of
from .managed_instances import ManagedInstances
from .on_demand import OnDemand
from .parts import Parts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

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
    config = configured(posix.environ)
    telemetry_server, unsubscribed = _subscription(api, managed)
    proc = Procfs()
    oom_score = OomScore(proc, config.oom_score_adj)
    table = ProcessTable(proc, address, folder or "/opt/extensions", oom_score, parse_last_pid(loadavg))
    if proxy is not None:
        table.proxy_address = proxy.address
    table.scan()  # a process that is here before the runtime is not the function
    telemetry_server, unsubscribed = _granted(api, telemetry_server, unsubscribed)
    _ask_for_first(api)
    recorder = Recorder(table, proc, config.memory_mib * 1024)
    level = MemorySource(proc)
    environment_memory, kills = EnvironmentMemory(table, level), OomKills(level)
    about = config, table, recorder, environment_memory, kills
    clock = Clock()
    tmp = TmpDisk(tmp_of(posix.environ))
    resources = Resources(table, proc, clock, tmp) if config.resources != OFF else None
    outputs = None
    if config.exports:
        from .outputs import Outputs  # read only where it is wanted

        outputs = Outputs(config, posix.environ, clock)
    parts = Parts(api, telemetry_server, unsubscribed, *about, proxy, clock, resources=resources, outputs=outputs)
    if managed:
        managed_instances = ManagedInstances(parts)
        _collect_from_here()
        managed_instances.run()
        return
    slots = SLOTS + (VALUES if config.aggregate_s else 0)
    journal = Journal(path_in(posix.environ, name) if config.journal else "", slots)
    environment_state = _environment_state(journal, proc)
    killed = kills.since(environment_state.kills)
    environment_state.kills = kills.seen
    lifecycle = OnDemand(parts, environment_state, journal)
    _collect_from_here()
    lifecycle.run(killed)


def configured(environ: Mapping[bytes, bytes]) -> Config:
    """The settings. The log begins with what is wrong with them."""
    config = Config(environ)
    set_level(config.log_level)
    for problem in config.problems:
        log("warn", problem)
    return config


def _collect_from_here() -> None:
    """What has been made stays: the collector need not look at it again. It is off until now where this is the layer's
    executable."""
    gc.freeze()
    gc.enable()


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


def _subscription(api: ExtensionsApi, managed: bool) -> tuple[TelemetryServer | None, str]:
    """A server that telemetry is to be delivered to, asked for and not yet granted; or None and the reason."""
    try:
        server = TelemetryServer()
    except OSError as error:
        return None, f"no port to listen on: {error.strerror}"
    try:
        wanted = (MANAGED_SCHEMA, MANAGED_TIMEOUT_MS) if managed else (TELEMETRY_SCHEMA, TIMEOUT_MS)
        api.send_subscription(server.port, server.path, *wanted)
    except ApiError as error:
        return None, reason(error)
    return server, ""


def _granted(api: ExtensionsApi, server: TelemetryServer | None, why_not: str) -> tuple[TelemetryServer | None, str]:
    """The same once the platform has answered."""
    if server is None:
        return None, why_not
    try:
        api.finish_subscription()
    except ApiError as error:
        return None, "not supported here" if error.status == 202 else reason(error)
    return server, ""


def _ask_for_first(api: ExtensionsApi) -> None:
    try:
        api.send_next()
    except ApiError:
        pass  # the loop asks, and says why that fails
