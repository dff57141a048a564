"""Runtime clients of each kind as the kernel counts them: connections and their bytes, no socket and no clock.

Each method is one thing that happens, in the order of an invocation; time passes in `wait` alone. A `Scene` plays
traces: what happens, and what looks at it are expected to tell.
"""

from __future__ import annotations

from truemem.conversation import MS, Conversation
from truemem.inet_diag import Connection

EVENT, RESPONSE, ERROR, ANSWER, REQUEST = 358, 247, 900, 166, 132
"""Bytes of the messages, as Python's client was seen to exchange them."""
PIECE = 16_000
"""Of an event that is too large to come at once."""
OWN, OWN_ANSWER = 90, 120
"""Those of the handler's own traffic to the same address."""


class Wire:
    """One connection."""

    def __init__(self, now_ms: float) -> None:
        self.sent = self.received = self.unsent = self.unread = 0
        self.came_ms = now_ms


class Client:
    """Python's: one connection for everything, and it is kept. Times in ms."""

    asks_anew = False
    """Does it open a connection for each request for an event?"""

    def __init__(self, jiffy_ms: int = 4) -> None:
        self.now_ms = 1000.0
        self.wires: dict[int, Wire] = {}
        self._jiffy_ms = jiffy_ms
        self._ports = 0
        self._own = 0
        self.responding = 0
        """The connection for responses, where that is another one."""
        self.asking = self.open()
        self.request()

    def open(self) -> int:
        """A new connection: its port."""
        self._ports += 1
        self.wires[self._ports] = Wire(self.now_ms)
        return self._ports

    def send(self, port: int, size: int) -> None:
        self.wires[port].sent += size

    def receive(self, port: int, size: int) -> None:
        self.wires[port].received += size
        self.wires[port].came_ms = self.now_ms

    def look(self) -> list[Connection]:
        """What the kernel says now."""
        return [
            Connection(
                port.to_bytes(2, "big"), port, wire.sent, wire.received, wire.unsent, wire.unread, self._ago_ms(wire)
            )
            for port, wire in self.wires.items()
        ]

    def _ago_ms(self, wire: Wire) -> int:
        return int(self.now_ms // self._jiffy_ms - wire.came_ms // self._jiffy_ms) * self._jiffy_ms

    def wait(self, ms: float) -> None:
        self.now_ms += ms

    def turn(self) -> None:
        """Of several workers, another one gets the next event."""

    def piece(self) -> None:
        """Some of a large event comes, and more is to come."""
        self.receive(self.asking, PIECE)

    def event(self) -> None:
        """The event comes, or the rest of it."""
        self.receive(self.asking, EVENT)

    def own(self) -> None:
        """The handler itself makes a request to the same address, on a connection of its own."""
        self._own = self.open()
        self.send(self._own, OWN)

    def own_answer(self) -> None:
        self.receive(self._own, OWN_ANSWER)

    def connect(self) -> None:
        """It connects for its response, where it has no connection for that."""

    def response(self, size: int = RESPONSE) -> None:
        """It sends the response, or some of it."""
        self.send(self.asking, size)

    def error(self) -> None:
        """The handler has failed: that is posted in place of a response."""
        self.response(ERROR)

    def answer(self) -> None:
        """The response is answered: 202."""
        self.receive(self.asking, ANSWER)

    def hang_up(self) -> None:
        """It closes the connection of its response, if it does so."""

    def dial(self) -> None:
        """It connects to ask for its next event, where it has no connection for that."""

    def request(self) -> None:
        """It asks for the next event."""
        self.send(self.asking, REQUEST)


class Node(Client):
    """A new connection for each request for an event, and one that is kept for all responses."""

    asks_anew = True

    def connect(self) -> None:
        self.responding = self.responding or self.open()

    def response(self, size: int = RESPONSE) -> None:
        self.send(self.responding, size)

    def answer(self) -> None:
        self.receive(self.responding, ANSWER)

    def dial(self) -> None:
        self.asking = self.open()

    def forget(self) -> None:
        """The server closes the connections on which events came before."""
        for port in self.wires.keys() - {self.asking, self.responding}:
            del self.wires[port]


class Curl(Node):
    """A new connection for each call, closed after it."""

    def event(self) -> None:
        super().event()
        del self.wires[self.asking]

    def connect(self) -> None:
        self.responding = self.open()

    def hang_up(self) -> None:
        del self.wires[self.responding]


class Workers(Client):
    """Three, each like Python's. All of them ask, and one gets the event."""

    def __init__(self, jiffy_ms: int = 4) -> None:
        super().__init__(jiffy_ms)
        for _ in range(2):
            self.send(self.open(), REQUEST)

    def turn(self) -> None:
        self.asking = self.asking % 3 + 1


class Pool(Client):
    """Takes the connection that was idle longest: with two of them, it asks on one and answers on the other."""

    def __init__(self, jiffy_ms: int = 4) -> None:
        super().__init__(jiffy_ms)
        self.responding = self.open()

    def response(self, size: int = RESPONSE) -> None:
        self.send(self.responding, size)

    def answer(self) -> None:
        self.receive(self.responding, ANSWER)


KINDS: list[type[Client]] = [Client, Node, Curl, Workers, Pool]
STATES = ("BEGUN", "WORKING", "RESPONDING", "WAITING", "BROKEN")


class Scene:
    """A client, and the conversation that looks are told to."""

    def __init__(self, kind: type[Client], jiffy_ms: int = 4, earlier: int = 3) -> None:
        """An invocation begins; there have been `earlier` ones, of which the first tells less than the others."""
        self.client = kind(jiffy_ms)
        self.talk = Conversation()
        self.begin()
        for _ in range(earlier):
            self.play("event 20ms connect response answer hang_up dial request 50ms turn begin")

    @property
    def now_ns(self) -> int:
        return round(self.client.now_ms * MS)

    def begin(self) -> None:
        """INVOKE has come to us."""
        self.talk.begin(self.client.look(), self.now_ns)

    def look(self, continuous: bool = True) -> int:
        return self.talk.observe(self.client.look(), self.now_ns, continuous)

    def play(self, trace: str) -> None:
        """A word in capitals is what a look says; else it is what happens: so many ms, or something that the client
        does. What follows a # says why."""
        for word in " ".join(line.partition("#")[0] for line in trace.splitlines()).split():
            if word in STATES:
                assert STATES[self.look()] == word
            elif word.endswith("ms"):
                self.client.wait(float(word[:-2]))
            elif word == "begin":
                self.begin()
            else:
                getattr(self.client, word)()
