"""Telemetry on its way: as much as there is room for, in its order, and what cannot be read is counted."""

from __future__ import annotations

from typing import cast

from truemem.platform.telemetry_inbox import DELIVERIES, TelemetryInbox
from truemem.platform.telemetry_server import TelemetryServer


class Ear:
    """A listener that always has more."""

    refused = 3

    def __init__(self, *bodies: bytes) -> None:
        self.bodies = list(bodies)

    def ready(self, _descriptor: int) -> list[bytes]:
        """One delivery."""
        return [self.bodies.pop(0)] if self.bodies else []


def inbox(ear: Ear | None, lost: list[int]) -> TelemetryInbox:
    return TelemetryInbox(cast(TelemetryServer, ear), lost.append)


def test_deliveries_are_read_in_their_order_and_what_is_none_is_counted() -> None:
    lost: list[int] = []
    made = inbox(Ear(b'[{"type":"platform.start","record":{"requestId":"a"}},5]', b"x", b"[]"), lost)
    made.take([7, 8, 9])
    read = []
    while made:
        read.append([event.request_id for event in made.read()])
    assert read == [["a"], [], []]
    assert lost == [1, 1, 0]


def test_what_there_is_no_room_for_stays_where_it_is() -> None:
    ear = Ear(*[b"[]"] * (2 * DELIVERIES))
    made = inbox(ear, [])
    made.take([7] * 2 * DELIVERIES)
    assert len(ear.bodies) == DELIVERIES
    made.read()
    made.take([7, 7])
    assert len(ear.bodies) == DELIVERIES - 1


def test_without_a_listener_nothing_comes() -> None:
    made = inbox(None, [])
    made.take([7])
    assert not made
