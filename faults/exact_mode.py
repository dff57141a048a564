"""Tests exact mode: all bytes arrive as they were sent, whatever happens to the sidecar, the API or the client.

Each conversation runs twice, directly and through the sidecar. What both sides have seen of each other is compared byte
for byte, to its end.
"""

from __future__ import annotations

import os
import resource
import signal
import socket
import tempfile
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from faults.environment import Died, FaultEnvironment, tally
from faults.result import NotHere, Row, counted
from faults.stalls import Stops
from faults.subject import Subject, faulty
from testing.bare import confined
from testing.proxy import (
    ACCEPTED,
    NEXT,
    Close,
    Read,
    ReadRest,
    Received,
    Reset,
    Send,
    Step,
    Wait,
    address_of,
    answer,
    directly,
    event,
    listen,
    play,
)

LARGE = bytes(range(256)) * 24_000
"""6 MB in which a lost byte is noticed."""

Conversation = tuple[list[Step], list[Step]]
"""What the runtime does, and what the API does."""


def invocations(
    name: str, count: int, body: bytes, *, piece: int = 1 << 20, reads: int = 1 << 20, pause_s: float = 0.0
) -> Conversation:
    """Over one connection. The runtime sends in pieces, waits before it reads an event, and reads in pieces."""
    runtime: list[Step] = []
    api: list[Step] = []
    for _ in range(count):
        told, said = event(name, body), answer(name, body)
        runtime += [Send(NEXT, piece), Wait(pause_s), Read(len(told), reads), Send(said, piece), Read(len(ACCEPTED))]
        api += [Read(len(NEXT)), Send(told, piece), Read(len(said), reads), Send(ACCEPTED, piece)]
    return [*runtime, Close()], [*api, ReadRest()]


def usual(name: str) -> Conversation:
    """Small events."""
    return invocations(name, 10, b"small")


def large(name: str) -> Conversation:
    """6 MB both ways."""
    return invocations(name, 2, LARGE)


def byte_by_byte(name: str) -> Conversation:
    """Both sides send so."""
    return invocations(name, 1, LARGE[:500], piece=1)


def pipelining(name: str) -> Conversation:
    """Asks before it is answered."""
    asked = NEXT + answer(name) + NEXT + answer("b", LARGE[:100_000]) + NEXT
    told = event(name) + ACCEPTED + event("b", LARGE[:100_000]) + ACCEPTED + event("c")
    return [Send(asked), Read(len(told)), Close()], [Read(len(asked)), Send(told), ReadRest()]


def not_reading(name: str) -> Conversation:
    """6 MB lie there for a while, and are then taken in small pieces."""
    return invocations(name, 1, LARGE, reads=8192, pause_s=0.3)


def cut_off(share: float, ending: Close | Reset) -> Callable[[str], Conversation]:
    """The API breaks off after this share of an event of 6 MB."""

    def conversation(name: str) -> Conversation:
        whole = event(name, LARGE)
        return [Send(NEXT), ReadRest(), Close()], [Read(len(NEXT)), Send(whole[: round(len(whole) * share)]), ending]

    return conversation


CUT_OFF = [cut_off(share, ending) for share in (0.0, 0.00001, 0.5, 0.999) for ending in (Close(), Reset())]
MIXED = [usual, large, byte_by_byte, pipelining, not_reading, CUT_OFF[4]]

CLIENTS: dict[str, Sequence[Callable[[str], Conversation]]] = {
    "the API cuts off in mid-answer": CUT_OFF,
    "a client that pipelines": [pipelining],
    "a client that sends byte by byte": [byte_by_byte],
    "a client that does not read for a while": [not_reading],
}


@contextmanager
def stopped(pid: int) -> Iterator[None]:
    """Stop the sidecar with SIGSTOP again and again."""
    stops = Stops(pid, seed=6)
    try:
        yield
    finally:
        assert stops.end(), "it was never stopped"
        os.kill(pid, signal.SIGCONT)


@contextmanager
def starved(pid: int) -> Iterator[None]:
    """Give the sidecar a twentieth of a CPU and the lowest priority. Raises NotHere."""
    os.setpriority(os.PRIO_PROCESS, pid, 19)
    with confined([pid], 0.05) as is_confined:
        if not is_confined:
            raise NotHere("no permission for a cpu cgroup")
        yield


@contextmanager
def out_of_descriptors(pid: int) -> Iterator[None]:
    """Let the sidecar open no more descriptors. Raises NotHere."""
    most = max(int(path.name) for path in Path(f"/proc/{pid}/fd").iterdir())
    try:
        _, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (most + 1, hard))
    except PermissionError as error:
        raise NotHere(f"prlimit: {error}") from None
    yield


CONDITIONS = {
    "the sidecar is stopped for moments": stopped,
    "the sidecar is starved of CPU": starved,
    "the sidecar is out of descriptors": out_of_descriptors,
}
BUGS = ("cut:BUG:3+", "cut:EIO:2-9", "pread-proc:BUG:30-60", "write-clear_refs:BUG:4+")
"""Faults in which measuring raises an exception, as faulty.py spells them."""


def same(direct: Received, through: Received) -> bool:
    """Compare two sides. A reset connection may lose data on its way (tcp(7)), also without the sidecar."""
    if direct.ending != through.ending:
        return False
    if direct.ending == "reset":
        size = min(len(direct.data), len(through.data))
        return direct.data[:size] == through.data[:size]
    return direct.data == through.data


def converse(
    environment: FaultEnvironment, api: socket.socket, port: int, conversations: Sequence[Callable[[str], Conversation]]
) -> list[str]:
    """Hold each conversation. Returns what was seen differently. Raises Died, TimeoutError."""
    wrong = []
    for number, conversation in enumerate(conversations):
        name = str(uuid.uuid4())
        directly_seen = directly(api, *conversation(name))
        environment.send(name)
        seen = play(port, api, *conversation(name))
        environment.work(name, "hold 256 1")
        for side, direct, through in zip(("the function", "the API"), directly_seen, seen, strict=True):
            if not same(direct, through):
                wrong.append(f"conversation {number}: {side} saw {through} instead of {direct}")
    return wrong


@contextmanager
def _calm(_: int) -> Iterator[None]:
    yield


def held(
    subject: Subject,
    title: str,
    rounds: int,
    advance: Callable[[], None],
) -> Row:
    """`rounds` times all conversations in one environment: those of one of CLIENTS, or a mixture under one of
    CONDITIONS. Raises NotHere."""
    conversations, under = CLIENTS.get(title, MIXED), CONDITIONS.get(title, _calm)
    title = f"exact mode: {title}"
    broken: list[str] = []
    with listen() as api, FaultEnvironment(subject, {"TRUEMEM_OOM_SCORE_ADJ": "0"}) as environment:
        try:
            environment.start()
            environment.await_next()
            assert environment.sidecar is not None
            port = environment.employ_stand_in(address_of(api))
            with under(environment.sidecar.pid):
                for _ in range(rounds):
                    broken += converse(environment, api, port, conversations)
                    advance()
            code = environment.shut_down()
            broken += [] if code == 0 else [f"exit code {code} at SHUTDOWN"]
        except Died:
            broken.append("the sidecar has ended")
        records, log = environment.records(), environment.said()
        served = environment.served
    printed = tally(served, records)
    missing = sum(not printed[name] for name in served)
    told = sum(record.get("dropped", 0) for record in records)
    has_stopped = "stopped measuring" in log
    if missing > told and not has_stopped:
        broken.append(f"{missing - told} lines lost in silence")
    return Row(
        title,
        f"{counted(rounds * len(conversations), 'conversation')}, each as without the sidecar",
        "nothing" if not broken else "**see below**",
        f"{counted(missing, 'line')} of {len(served)}, reported" if missing else "nothing",
        [f"{title}: {each}" for each in broken],
    )


def throwing(rounds: int, advance: Callable[[], None], bugs: Sequence[str] = BUGS) -> Row:
    """Hold the conversations while measuring raises exceptions, in one environment for each of `bugs`."""
    rows = []
    for bug in bugs:
        with tempfile.TemporaryDirectory(prefix="truemem-faulty-", dir="/tmp") as folder:
            rows.append(held(faulty(Path(folder), bug), "measuring throws", rounds, advance))
    return Row(
        rows[0].fault,
        f"{len(bugs)} ways, {rows[0].tried}",
        max(row.saw for row in rows),
        "; ".join(sorted({row.lost for row in rows})),
        [f"{bug}: {each}" for bug, row in zip(bugs, rows, strict=True) for each in row.broken],
    )
