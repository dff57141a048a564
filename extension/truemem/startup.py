"""From registered to serving: subscribe to telemetry, look at the processes, ask for the first event, make all else.

The first `next` ends the init phase and closes the subscription. A runtime that starts in milliseconds waits for it, so
it goes out as soon as the first look at the processes is done. That look is made while the platform answers the
subscription.
"""

from __future__ import annotations

import gc
import posix

from . import batch, heaps, journal, lines, malloc, managed, outputs, resources, stacks
from .config import Config
from .lifecycle.loop import LoopParts
from .lifecycle.on_demand import OnDemand
from .linux.cgroup import MemorySource, OomKills
from .linux.oom_score import OomScore
from .linux.process_table import ProcessTable
from .linux.procfs import Gone, Procfs, parse_last_pid
from .measure.environment_memory import EnvironmentMemory
from .measure.recorder import Recorder
from .platform.extensions_api import (
    MANAGED_SCHEMA,
    MANAGED_TIMEOUT_MS,
    TELEMETRY_SCHEMA,
    TIMEOUT_MS,
    ApiError,
    ExtensionsClient,
)
from .platform.telemetry import TelemetryServer
from .records.pending_record import EnvironmentState
from .support.clock import Clock
from .support.log import OwnWords, log, reason, set_level
from .wings import Keeper, Site, Wings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from .platform.proxy import RuntimeProxy
    from .wings import Wing


WINGS: dict[str, Callable[[Site], Wing | None]] = {
    "heaps": heaps.door,
    "malloc": malloc.door,
    "lines": lines.door,
    "stacks": stacks.door,
    "resources": resources.door,
    "outputs": outputs.door,
    "journal": journal.door,
    "batch": batch.door,
    "managed": managed.door,
}
"""Features that can be taken out (`make layer WITHOUT=outputs,batch`), in the order of their members in a line."""


class NotBuiltError(OwnWords, RuntimeError):
    """What is wanted was left out of this build."""


def start(
    api: ExtensionsClient,
    address: str,
    folder: str,
    name: str,
    is_managed: bool,
    loadavg: bytes = b"",
    proxy: RuntimeProxy | None = None,
) -> None:
    """Registered already, as the file `name` of `folder`: subscribe, look around, and serve until SHUTDOWN.
    `is_managed` says that this is on Managed Instances, `loadavg` is from before that. `proxy` serves the runtime in
    exact mode."""
    config = configured(posix.environ)
    telemetry_server, unsubscribed = _subscription(api, is_managed)
    proc = Procfs()
    oom_score = OomScore(proc, config.oom_score_adj)
    table = ProcessTable(proc, address, folder or "/opt/extensions", oom_score, parse_last_pid(loadavg))
    if proxy is not None:
        table.proxy_address = proxy.address
    if config.port and (proxy is None or proxy.address != f"127.0.0.1:{config.port}"):
        log("error", "TRUEMEM_PORT is taken: what is pointed at it does not reach Lambda. Set another port")
    table.scan()  # a process that is here before the runtime is not the function
    telemetry_server, unsubscribed = _granted(api, telemetry_server, unsubscribed)
    try:
        api.send_next()
    except ApiError:
        pass  # the loop asks, and says why that fails
    recorder = Recorder(table, proc, config.memory_mib * 1024)
    level = MemorySource(proc)
    environment_memory, kills = EnvironmentMemory(table, level), OomKills(level)
    clock = Clock()
    site = Site(config, posix.environ, name, is_managed, table, proc, clock)
    wings = Wings([wing for wing in (door(site) for door in WINGS.values()) if wing is not None])
    recorder.readings_taken = wings.readings_taken
    parts = LoopParts(
        api,
        telemetry_server,
        unsubscribed,
        config,
        table,
        recorder,
        environment_memory,
        kills,
        proxy,
        clock,
        wings=wings,
    )
    if is_managed:
        if wings.managed is None:
            raise NotBuiltError("on Managed Instances, and built without the wing that measures there")
        lifecycle = wings.managed(parts)
        _collect_from_here()
        lifecycle.run()
        return
    environment_state = _environment_state(wings.keeper, proc)
    killed = kills.since(environment_state.kills)
    environment_state.kills = kills.seen
    on_demand = OnDemand(parts, environment_state)
    _collect_from_here()
    on_demand.run(killed)


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


def _environment_state(keeper: Keeper, proc: Procfs) -> EnvironmentState:
    """What an earlier process of this environment has left, else a new one."""
    try:
        boot = proc.text("sys/kernel/random/boot_id", 64).decode("latin-1").strip()
    except Gone:
        boot = ""
    environment_state = EnvironmentState(boot)
    if not environment_state.resume_from(keeper.history) and not keeper.empty():
        keeper.forget()
    return environment_state


def _subscription(api: ExtensionsClient, managed: bool) -> tuple[TelemetryServer | None, str]:
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


def _granted(api: ExtensionsClient, server: TelemetryServer | None, why_not: str) -> tuple[TelemetryServer | None, str]:
    if server is None:
        return None, why_not
    try:
        api.finish_subscription()
    except ApiError as error:
        return None, "not supported here" if error.status == 202 else reason(error)
    return server, ""
