"""What start has made for the lifecycle of one environment."""

from __future__ import annotations

from ..platform.exact_mode import ExactMode
from ..support.named_tuple import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    import select

    from ..config import Config
    from ..linux.oom_kills import OomKills
    from ..linux.process_table import ProcessTable
    from ..measure.environment_memory import EnvironmentMemory
    from ..measure.recorder import Recorder
    from ..measure.resources import Resources
    from ..platform.extensions_api import ExtensionsApi
    from ..platform.runtime_proxy import RuntimeProxy
    from ..platform.telemetry_server import TelemetryServer
    from ..support.clock import Clock
    from .outputs import Outputs


class Parts(NamedTuple):
    """The sidecar's own parts, by name. Both lifecycles work with them."""

    api: ExtensionsApi
    telemetry_server: TelemetryServer | None
    """None where telemetry is not subscribed to,"""
    unsubscribed: str
    """and why."""
    config: Config
    table: ProcessTable
    recorder: Recorder
    environment_memory: EnvironmentMemory
    kills: OomKills
    proxy: RuntimeProxy | None
    """Serves the runtime in exact mode; None where it cannot."""
    clock: Clock
    poll: select.poll | None = None
    """What waits for sockets: None for the system's."""
    resources: Resources | None = None
    """Reads /tmp, descriptors, threads and processes; None where that is switched off."""
    outputs: Outputs | None = None
    """Takes records, too; None where they have their lines alone."""

    @property
    def exact(self) -> ExactMode:
        """What passes between the runtime and its API: never anything without a proxy."""
        return self.proxy.exact if self.proxy is not None else ExactMode()

    def lost(self) -> int:
        """What could not be read, by any of them."""
        refused = self.telemetry_server.refused if self.telemetry_server is not None else 0
        unsent = self.outputs.lost if self.outputs is not None else 0
        return self.exact.failures + refused + self.table.errors + self.recorder.reader.lost + unsent

    @property
    def sends_to(self) -> str:
        """For the log: where records are sent beside their line. Empty: nowhere."""
        return self.outputs.told if self.outputs is not None else ""

    def hurry(self, limit_ns: float, last: bool = False) -> None:
        """The environment ends: send what is to be sent, for so long at most."""
        if self.outputs is not None:
            self.outputs.hurry(limit_ns, last)

    def know_runtime(self) -> None:
        """Only at the first events: which process is the runtime?"""
        if self.table.is_settled():
            return
        self.table.scan()
        if self.proxy is None or not self.proxy.show_runtime(self.table):
            self.table.adopt_elsewhere()
