"""From registered to serving: settings, telemetry, and what there is to measure with. All of it before the
first `next`, which ends the init phase and closes the subscription."""

from __future__ import annotations

import gc
import posix

from .cgroup import Level
from .config import Config
from .lambda_api import ApiError, LambdaApi
from .listener import Listener
from .log import log, set_level
from .processes import ProcessTable
from .procfs import Procfs
from .recorder import Recorder
from .runtime_watch import RuntimeWatch
from .sidecar import Sidecar
from .surroundings import Surroundings


def start(api: LambdaApi, address: str, extensions_folder: str) -> None:
    """Registered already: subscribe, look around, and serve until SHUTDOWN."""
    config = Config(posix.environ)
    set_level(config.log_level)
    for problem in config.problems:
        log("warn", problem)
    listener, unsubscribed = _subscribe(api)
    proc = Procfs()
    table = ProcessTable(proc, address, extensions_folder or "/opt/extensions")
    recorder = Recorder(table, proc, config.memory_mib * 1024)
    watch = RuntimeWatch(table, proc, wanted=config.hold != "always")
    sidecar = Sidecar(api, listener, unsubscribed, config, table, recorder, watch, Surroundings(table, Level(proc)))
    gc.freeze()  # what there is by now stays, and need not be looked at again
    gc.enable()  # off since the start where this is the layer's executable
    sidecar.run()


def _subscribe(api: LambdaApi) -> tuple[Listener | None, str]:
    """A listener that telemetry is delivered to, or None and the reason why there is none."""
    try:
        listener = Listener()
    except OSError as error:
        return None, f"no port to listen on: {error.strerror}"
    try:
        api.subscribe(listener.port)
    except ApiError as error:
        return None, "not supported here" if error.status == 202 else str(error)
    return listener, ""
