"""From registered to serving: settings, telemetry, and what there is to measure with. All of it before the
first `next`, which ends the init phase and closes the subscription."""

from __future__ import annotations

import gc
import posix

from .cgroup import Level
from .config import Config
from .emf import VALUES
from .history import History
from .journal import SLOTS, Journal, path_in
from .lambda_api import MANAGED_SCHEMA, MANAGED_TIMEOUT_MS, TELEMETRY_SCHEMA, TIMEOUT_MS, ApiError, LambdaApi
from .listener import Listener
from .log import log, set_level
from .oom_kills import OomKills
from .oom_score import OomScore
from .processes import ProcessTable
from .procfs import Gone, Procfs, parse_last_pid
from .recorder import Recorder
from .sidecar import Sidecar
from .surroundings import Surroundings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .runtime_proxy import RuntimeProxy


def start(
    api: LambdaApi,
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
    level = Level(proc)
    if managed:
        from .managed import Managed

        gc.freeze()
        gc.enable()
        surroundings, kills = Surroundings(table, level), OomKills(level)
        Managed(api, listener, unsubscribed, config, table, recorder, surroundings, kills, proxy).run()
        return
    kills = OomKills(level)
    slots = SLOTS + (VALUES if config.aggregate_s else 0)
    journal = Journal(path_in(posix.environ, name) if config.journal else "", slots)
    history = _history(journal, proc)
    killed = kills.since(history.kills)
    history.kills = kills.seen
    sidecar = Sidecar(
        api, listener, unsubscribed, config, table, recorder, Surroundings(table, level), history, journal, kills, proxy
    )
    gc.freeze()  # what there is by now stays, and need not be looked at again
    gc.enable()  # off since the start where this is the layer's executable
    sidecar.run(killed)


def _history(journal: Journal, proc: Procfs) -> History:
    """What an earlier process of this environment has left, else a new one."""
    try:
        boot = proc.text("sys/kernel/random/boot_id", 64).decode("latin-1").strip()
    except Gone:
        boot = ""
    history = History(boot)
    if not history.take_over(journal.history) and not journal.empty():
        journal.forget()
    return history


def _subscribe(api: LambdaApi, managed: bool) -> tuple[Listener | None, str]:
    """A listener that telemetry is delivered to, or None and the reason why there is none."""
    try:
        listener = Listener()
    except OSError as error:
        return None, f"no port to listen on: {error.strerror}"
    try:
        wanted = (MANAGED_SCHEMA, MANAGED_TIMEOUT_MS) if managed else (TELEMETRY_SCHEMA, TIMEOUT_MS)
        api.subscribe(listener.port, listener.path, *wanted)
    except ApiError as error:
        return None, "not supported here" if error.status == 202 else str(error)
    return listener, ""
