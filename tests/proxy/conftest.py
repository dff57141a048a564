"""What the tests of the proxy share."""

import socket
from collections.abc import Iterator

import pytest

from testing.proxy import listen


@pytest.fixture
def api() -> Iterator[socket.socket]:
    """The Runtime API's listening socket."""
    with listen() as listening:
        yield listening
