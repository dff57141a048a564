"""Waiting for what comes next: an event, telemetry, or a moment."""

from __future__ import annotations

import select

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..support.clock import RunningClock
    from .extensions_api import ExtensionsApi
    from .runtime_proxy import RuntimeProxy
    from .telemetry_server import TelemetryServer

MS = 1_000_000

LONGEST_MS = 1 << 30
"""What poll(2) takes, in whole numbers: a clock may have jumped."""

FAILURES = 10
"""A wait may fail once because the kernel has no memory (poll(2): ENOMEM)."""


class Poller:
    """Keeps the poll's descriptors in step with the connections."""

    def __init__(
        self,
        api: ExtensionsApi,
        listener: TelemetryServer | None,
        clock: RunningClock,
        proxy: RuntimeProxy | None = None,
        poll: select.poll | None = None,
        outputs: Callable[[], dict[int, int]] | None = None,
    ) -> None:
        """`poll` is what waits; None for the system's. `outputs`: more descriptors, and the events of each."""
        self._outputs = outputs
        self._api = api
        self._listener = listener
        self._clock = clock
        self._proxy = proxy
        self._poll = poll or select.poll()
        self._polled: dict[int, int] = {}
        """Events by descriptor, as the poll knows them."""
        self._failures = 0
        """In a row."""

    def wait(self, timeout_ns: int) -> list[int]:
        """The descriptors that are ready, none after `timeout_ns`. Raises OSError if that fails FAILURES times in a
        row."""
        self._refresh()
        if self._proxy is not None:
            timeout_ns = round(min(timeout_ns, self._proxy.patience_s * 1e9))
        timeout_ms = min(max(0, -(-timeout_ns // MS)), LONGEST_MS)
        self._clock.before_wait(timeout_ms)
        try:
            ready = [descriptor for descriptor, _ in self._poll.poll(timeout_ms)]
            self._failures = 0
            return ready
        except OSError:
            self._failures += 1
            if self._failures >= FAILURES:
                raise
            return []
        finally:
            self._clock.after_wait()

    def _refresh(self) -> None:
        wanted = self._proxy.interests() if self._proxy is not None else {}
        if self._api.waiting:
            wanted[self._api.fileno()] = select.POLLIN
        if self._listener is not None:
            for descriptor in self._listener.descriptors():
                wanted[descriptor] = select.POLLIN
        if self._outputs is not None:
            wanted.update(self._outputs())
        if wanted == self._polled:
            return
        for descriptor in self._polled.keys() - wanted.keys():
            try:
                self._poll.unregister(descriptor)
            except KeyError:
                pass
        for descriptor, events in wanted.items():
            if self._polled.get(descriptor) != events:
                self._poll.register(descriptor, events)
        self._polled = wanted
