"""Handlers that leak by another clock than the invocation, and handlers that do not leak under the same traffic.

The variable WORK has the name of one. Each leak is one that was reported of real code: the reference is beside it.
"""

from __future__ import annotations

import gc
import json
import os
import random
import socket
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import ClassVar

Rows = list[dict[str, object]]


def fetched(count: int) -> Rows:
    """What a backend answers: so many rows of 0.3 KiB."""
    made = [{"id": each, "name": f"row {each}", "price": each / 7} for each in range(count)]
    rows: Rows = json.loads(json.dumps(made))
    return rows


class Gauges:
    """Samples every 100 ms in a thread, and again for the time that it was frozen, so that no graph has gaps. Nothing
    collects the samples (qoollo/bob#788)."""

    EVERY_S = 0.1

    def __init__(self) -> None:
        self.samples: deque[tuple[float, list[float]]] = deque()
        self.due = time.time()
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        while True:
            while self.due <= time.time():
                self.samples.append((self.due, [random.random() for _ in range(200)]))
                self.due += self.EVERY_S
            time.sleep(self.EVERY_S)


class Catalogue:
    """A price list that is loaded again every 10 s. The session's event hooks keep all that were (boto/boto3#2176)."""

    TTL_S = 10
    hooks: ClassVar[list[Callable[[str], None]]] = []

    def __init__(self) -> None:
        self.rows = fetched(1500)
        self.loaded = time.monotonic()
        self.hooks.append(self.changed)

    def changed(self, name: str) -> None:
        self.rows = [row for row in self.rows if row["name"] != name]


class Client:
    """A cache client. One that was idle is replaced, because the server has closed it by now; the health check of the
    first one runs on, and keeps it (miguelgrinberg/python-socketio#1569)."""

    IDLE_S = 1.7
    checks: ClassVar[list[Callable[[], bool]]] = []

    def __init__(self) -> None:
        self.used = time.monotonic()
        self.known = fetched(1200)
        self.checks.append(self.is_well)

    def is_well(self) -> bool:
        return bool(self.known)


class Sockets:
    """Connections, of which the last one is taken first. A connection that was idle is taken for dead, and is closed
    when it is next used, which is never (redis/redis-py#306)."""

    IDLE_S = 1.7

    def __init__(self) -> None:
        host, _, port = os.environ["SERVER"].partition(":")
        self.address = host, int(port)
        self.connections: list[socket.socket] = []
        self.used = 0.0

    def ask(self) -> None:
        if time.monotonic() - self.used > self.IDLE_S:
            self.connections.append(socket.create_connection(self.address))
        self.connections[-1].sendall(b"GET key\n")
        self.connections[-1].recv(100)
        self.used = time.monotonic()


class Connection:
    """A database connection that is replaced when it is 6 s old. Its prepared statements are in a cache that has it as
    its key (as sqlalchemy/sqlalchemy#7059: what is invalidated is still referred to)."""

    AGE_S = 6
    statements: ClassVar[dict[Connection, Rows]] = {}

    def __init__(self) -> None:
        self.made = time.monotonic()
        self.statements[self] = fetched(800)


class Pool:
    """A pool that drops what was idle for more than 2.5 s. Dropped connections are not closed, and the event loop still
    knows them (eclipse-vertx/vertx-sql-client#935)."""

    IDLE_S = 2.5

    def __init__(self) -> None:
        self.free: list[tuple[float, Rows]] = []
        self.registered: list[Rows] = []

    def take(self) -> Rows:
        limit = time.monotonic() - self.IDLE_S
        self.free = [each for each in self.free if each[0] > limit]
        if self.free:
            return self.free.pop()[1]
        self.registered.append(fetched(1000))
        return self.registered[-1]

    def give_back(self, connection: Rows) -> None:
        self.free.append((time.monotonic(), connection))


class Leaks:
    """Each method is one handler."""

    def __init__(self) -> None:
        self.kept: object = None

    def by_time(self) -> None:
        self.kept = self.kept or Gauges()

    def by_refresh(self) -> None:
        if not isinstance(self.kept, Catalogue) or time.monotonic() - self.kept.loaded > Catalogue.TTL_S:
            self.kept = Catalogue()

    def by_pause(self) -> None:
        if not isinstance(self.kept, Client) or time.monotonic() - self.kept.used > Client.IDLE_S:
            self.kept = Client()
        self.kept.used = time.monotonic()

    def by_pause_sockets(self) -> None:
        if not isinstance(self.kept, Sockets):
            self.kept = Sockets()
        self.kept.ask()

    def by_age(self) -> None:
        if not isinstance(self.kept, Connection) or time.monotonic() - self.kept.made > Connection.AGE_S:
            self.kept = Connection()

    def by_trimming(self) -> None:
        if not isinstance(self.kept, Pool):
            self.kept = Pool()
        self.kept.give_back(self.kept.take())


class Others:
    """Each method is one handler. None of them leaks."""

    def __init__(self) -> None:
        self.kept: OrderedDict[int, object] = OrderedDict()
        self.recent: deque[float] = deque()
        self.last_batch = 0.0

    def bounded_pool(self) -> None:
        """Clients of 40 tenants, and room for eight: the one that was not used for longest goes."""
        tenant = int(40 * random.random() ** 2)
        client = self.kept.pop(tenant, None) or fetched(1000)
        self.kept[tenant] = client
        while len(self.kept) > 8:
            self.kept.popitem(last=False)

    def filled_cache(self) -> None:
        """A value for each of 30 seconds: with traffic it is full after so long."""
        self.kept.setdefault(int(time.time()) % 30, fetched(500))

    def sawtooth(self) -> None:
        """Trees with links to their parents wait for Python's collector, which was set to run seldom."""
        gc.set_threshold(10_000)
        tree: dict[str, object] = {"rows": fetched(300)}
        tree["itself"] = tree

    def spikes(self) -> None:
        """One request in 50 makes a report of 40 MiB."""
        if random.random() < 0.02:
            b"-" * (40 << 20)

    def slow_under_load(self) -> None:
        """A backend that takes longer for each request of the last second."""
        time.sleep(min(0.002 * self._load(), 0.2))

    def hoards(self) -> None:
        """After a burst, what the batch has freed stays with the allocator: a few rows of each block live on."""
        if self._load() > 5 and time.monotonic() - self.last_batch > 20:
            self.last_batch = time.monotonic()
            self.kept.clear()
            self.kept.update({number: row for number, row in enumerate(fetched(60_000)) if number % 50 == 0})

    def _load(self) -> int:
        """Requests of the last second."""
        now = time.monotonic()
        self.recent.append(now)
        while self.recent[0] < now - 1:
            self.recent.popleft()
        return len(self.recent)


WORK = os.environ.get("WORK", "by_time")
run: Callable[[], None] = getattr(Leaks() if WORK.startswith("by_") else Others(), WORK)


def handler(_event: object, _context: object) -> str:
    run()
    return WORK
