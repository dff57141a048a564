"""The one line that says, at the first invocation, what the environment allows; one more if there is no function."""

from __future__ import annotations

from ..support.log import log

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..config import Config
    from ..linux.process_table import ProcessTable
    from ..measure.environment_memory import EnvironmentMemory
    from ..measure.recorder import Recorder


def notice(
    config: Config,
    table: ProcessTable,
    recorder: Recorder,
    environment_memory: EnvironmentMemory,
    *,
    method: str,
    telemetry: str,
    exact: bool = False,
    problems: str = "",
    outputs: str = "",
) -> None:
    """Log it. `method` is the one there is if watermarks can be reset; `problems` a line more, if any; `outputs`: where
    records are sent, too."""
    if recorder.reader.refused:
        method = f"sampled ({recorder.reader.refused})"
    log(
        "info",
        f"method={method} function processes={len(table.function())} environment={environment_memory.source} "
        f"telemetry={telemetry} mode={'exact' if exact else 'default'} limit={config.memory_mib or 'unknown'} MiB"
        + (f" aggregate={config.aggregate_s} s" if config.aggregate_s else "")
        + (f" line={'yes' if config.prints else 'no'} sends to {outputs}" if outputs else ""),
    )
    if not table.function():
        log("warn", f"no process of the function is found, nothing is measured: {table.looked_for()}")
    for problem in problems, table.oom_score_refused():
        if problem:
            log("info", problem)
