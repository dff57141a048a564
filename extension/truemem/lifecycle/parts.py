"""What start has made for the lifecycle of one environment."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import select

    from ..config import Config
    from ..linux.oom_kills import OomKills
    from ..linux.process_table import ProcessTable
    from ..measure.environment_memory import EnvironmentMemory
    from ..measure.recorder import Recorder
    from ..platform.extensions_api import ExtensionsApi
    from ..platform.runtime_proxy import RuntimeProxy
    from ..platform.telemetry_server import TelemetryServer
    from ..support.clock import Clock


class Parts:
    """The sidecar's own parts, by name. Both lifecycles work with them."""

    __slots__ = (
        *("api", "clock", "config", "environment_memory", "kills", "poll", "proxy", "recorder", "table"),
        *("telemetry_server", "unsubscribed"),
    )

    def __init__(
        self,
        api: ExtensionsApi,
        telemetry_server: TelemetryServer | None,
        unsubscribed: str,
        config: Config,
        table: ProcessTable,
        recorder: Recorder,
        environment_memory: EnvironmentMemory,
        kills: OomKills,
        proxy: RuntimeProxy | None,
        clock: Clock,
        poll: select.poll | None = None,
    ) -> None:
        self.api = api
        self.telemetry_server = telemetry_server
        """None where telemetry is not subscribed to,"""
        self.unsubscribed = unsubscribed
        """and why."""
        self.config = config
        self.table = table
        self.recorder = recorder
        self.environment_memory = environment_memory
        self.kills = kills
        self.proxy = proxy
        """Serves the runtime in exact mode; None where it cannot."""
        self.clock = clock
        self.poll = poll
        """What waits for sockets: None for the system's."""

    def know_runtime(self) -> None:
        """Only at the first events: which process is the runtime?"""
        if self.table.is_settled():
            return
        self.recorder.reader.find()
        if self.proxy is None or not self.proxy.show_runtime(self.table):
            self.table.adopt_elsewhere()
