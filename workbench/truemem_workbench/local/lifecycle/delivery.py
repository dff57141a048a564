"""Delivers telemetry to the extensions: in batches with three limits, and only while the environment runs."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol
from urllib.parse import urlsplit

import aiohttp

from ...support.untrusted_text import loads
from . import events
from .events import Event


@dataclass(frozen=True)
class Buffering:
    """Limits of a batch. It is sent when it reaches the first of them."""

    max_items: int = 10_000
    max_bytes: int = 262_144
    timeout_ms: int = 1_000
    """Longest wait of a batch, from its first event."""
    newest_first: bool = False
    """Reverse each batch, as a fault: AWS promises no order."""


@dataclass
class Batch:
    """The events that wait. No clock: the caller passes the time, in seconds."""

    buffering: Buffering
    items: list[bytes] = field(default_factory=list)
    size: int = 0
    due: float | None = None
    """Time at which the oldest waiting event must be sent."""

    def add(self, item: bytes, now: float) -> None:
        if self.due is None:
            self.due = now + self.buffering.timeout_ms / 1000
        self.items.append(item)
        self.size += len(item)

    def wait(self, now: float) -> float | None:
        """Seconds until the batch must be sent: 0 or less means now, None means that it is empty."""
        if self.due is None:
            return None
        if len(self.items) >= self.buffering.max_items or self.size >= self.buffering.max_bytes:
            return 0.0
        return self.due - now

    def take(self, now: float) -> list[bytes]:
        """Take the next batch: at most maxItems events, and no event that begins after maxBytes."""
        count = size = 0
        while count < len(self.items) and count < self.buffering.max_items and size < self.buffering.max_bytes:
            size += len(self.items[count])
            count += 1
        taken, self.items = self.items[:count], self.items[count:]
        self.size -= size
        self.due = now + self.buffering.timeout_ms / 1000 if self.items else None
        return taken


class Destination(Protocol):
    async def send(self, items: list[bytes]) -> None:
        """Send events. Raises OSError or aiohttp.ClientError if the subscriber did not take them."""

    def close(self) -> None: ...


class HttpDestination:
    """Posts a JSON array to the subscriber's URI. The sandbox's host names mean this machine's loopback."""

    def __init__(self, session: aiohttp.ClientSession, uri: str) -> None:
        parts = urlsplit(uri)
        self._session = session
        self._host = parts.netloc
        self._url = parts._replace(netloc=f"127.0.0.1:{parts.port}").geturl()

    async def send(self, items: list[bytes]) -> None:
        headers = {"Content-Type": "application/json", "Host": self._host}
        body = b"[" + b",".join(items) + b"]"
        async with self._session.post(self._url, data=body, headers=headers) as response:
            await response.read()
            if response.status >= 400:
                raise ConnectionError(f"status {response.status}")

    def close(self) -> None: ...


class TcpDestination:
    """Sends one event per line on one long connection."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer

    async def send(self, items: list[bytes]) -> None:
        self._writer.write(b"".join(item + b"\n" for item in items))
        await self._writer.drain()

    def close(self) -> None:
        self._writer.close()


RETRY_AFTER_S = (0.0, 0.1, 0.4)
"""Pauses before each attempt of a POST, in seconds. AWS documents a back-off, but not its values."""
HELD_BATCHES = 8
"""Events beyond this many times maxBytes are dropped, so that a slow listener does not slow the function."""
TOO_SLOW = "Some logs were dropped because the downstream consumer is slower than the logs production rate"


class Subscriber:
    """One extension's subscription, with its own batch and one POST at a time."""

    def __init__(
        self,
        types: tuple[str, ...],
        buffering: Buffering,
        destination: Destination,
        *,
        parse_json: bool,
        on_dropped: Callable[[Event], None],
    ) -> None:
        self._types = types
        self._parse_json = parse_json
        self._batch = Batch(buffering)
        self._destination = destination
        self._on_dropped = on_dropped
        self._wake = asyncio.Event()
        self._open = True
        self._delivered = asyncio.Event()
        self._delivered.set()
        self._dropped_records = 0
        self._dropped_bytes = 0
        self._task = asyncio.create_task(self._deliver())

    def offer(self, event: Event, *, flow: bool) -> None:
        """Add the event if its type is subscribed. `flow` is False while the environment is frozen."""
        kind = event["type"]
        if ("platform" if kind.startswith("platform.") else kind) not in self._types:
            return
        item = events.compact(self._shaped(event))
        if self._batch.size + len(item) > HELD_BATCHES * self._batch.buffering.max_bytes:
            self._dropped_records += 1
            self._dropped_bytes += len(item)
            return
        due, now = self._batch.due, time.monotonic()
        self._batch.add(item, now)
        self._delivered.clear()
        if due is None or flow is not self._open or self._batch.wait(now) == 0:  # else the task waits for `due` already
            self._open = flow
            self._wake.set()

    def _shaped(self, event: Event) -> Event:
        """Convert a log line into an object, with the log format JSON and a schema from 2022-12-13 on."""
        record = event["record"]
        if not self._parse_json or not isinstance(record, str):
            return event
        try:
            parsed = loads(record)
        except ValueError:
            parsed = None
        if not isinstance(parsed, dict):
            parsed = {"timestamp": event["time"], "level": "INFO", "message": record}
        return event | {"record": parsed}

    def pause(self) -> None:
        self._open = False

    def resume(self, *, flush: bool = False) -> None:
        self._open = True
        if flush and self._batch.items:
            self._batch.due = time.monotonic()
        self._wake.set()

    async def delivered(self) -> None:
        """Wait until all events are delivered."""
        await self._delivered.wait()

    def close(self) -> None:
        self._task.cancel()
        self._destination.close()

    async def _deliver(self) -> None:
        while True:
            await self._until_due()
            items = self._batch.take(time.monotonic())
            if self._batch.buffering.newest_first:
                items.reverse()
            error = await self._send(items)
            if error is not None and not all(b'"platform.logsDropped"' in item for item in items):
                size = sum(map(len, items))
                self._report_dropped(len(items), size, f"could not send events: {error}")
            if self._dropped_records:
                self._report_dropped(self._dropped_records, self._dropped_bytes, TOO_SLOW)
                self._dropped_records = self._dropped_bytes = 0
            if not self._batch.items:
                self._delivered.set()

    async def _until_due(self) -> None:
        while True:
            wait = self._batch.wait(time.monotonic()) if self._open else None
            if wait is not None and wait <= 0:
                return
            await self._woken(wait)

    async def _until_open(self) -> None:
        while not self._open:
            await self._woken(None)

    async def _woken(self, within_s: float | None) -> None:
        self._wake.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await self._wake.wait()

    async def _send(self, items: list[bytes]) -> Exception | None:
        """Send a batch. Returns None if it was taken, else the last error after all retries."""
        error: Exception | None = None
        for pause in RETRY_AFTER_S:
            await asyncio.sleep(pause)
            await self._until_open()  # what a frozen process is sent, it would read before its next INVOKE
            try:
                await self._destination.send(items)
            except (OSError, aiohttp.ClientError) as refusal:
                error = refusal
            else:
                return None
        return error

    def _report_dropped(self, records: int, size: int, reason: str) -> None:
        self._on_dropped(events.event(time.time(), "platform.logsDropped", events.logs_dropped(records, size, reason)))


class Relay:
    """All subscriptions of one generation of processes. A reset ends them."""

    def __init__(self) -> None:
        self._subscribers: dict[str, Subscriber] = {}
        self._init_events: list[Event] = []
        self.closed = False
        """True after init: then no extension can subscribe."""
        self._flow = True

    def subscribe(self, extension_id: str, subscriber: Subscriber) -> None:
        """Add a subscription. A new subscriber gets init's events so far; a second subscription replaces the first."""
        known = self._subscribers.pop(extension_id, None)
        if known:
            known.close()
        else:
            for event in self._init_events:
                subscriber.offer(event, flow=self._flow)
        self._subscribers[extension_id] = subscriber

    def close_subscription(self) -> None:
        self.closed = True

    def resend_init(self) -> None:
        """Deliver init's events, with the snapshot's instanceId, once more after a SnapStart restore."""
        for event in self._init_events:
            if event["type"].startswith("platform.init"):
                self._offer(event)

    def offer(self, event: Event) -> None:
        if not self.closed:
            self._init_events.append(event)
        self._offer(event)

    def _offer(self, event: Event) -> None:
        for subscriber in self._subscribers.values():
            subscriber.offer(event, flow=self._flow)

    def pause(self) -> None:
        """Hold back all batches until the thaw."""
        self._flow = False
        for subscriber in self._subscribers.values():
            subscriber.pause()

    def resume(self, *, flush: bool = False) -> None:
        """Deliver again. Overdue batches are sent at once, or all batches with `flush`."""
        self._flow = True
        for subscriber in self._subscribers.values():
            subscriber.resume(flush=flush)

    async def flush(self, within_s: float) -> None:
        """Send everything, and wait at most that long for it."""
        self.resume(flush=True)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                for subscriber in list(self._subscribers.values()):
                    await subscriber.delivered()

    def close(self) -> None:
        for subscriber in self._subscribers.values():
            subscriber.close()
        self._subscribers.clear()
