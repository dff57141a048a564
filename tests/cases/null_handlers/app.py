"""Makes twenty clients for the records of an event; each adds a handler to the same logger."""

import logging


class Client:
    def __init__(self) -> None:
        self.log = logging.getLogger("client")
        self.log.addHandler(logging.NullHandler())


def handler(event: object, context: object) -> int:
    clients = [Client() for _ in range(20)]
    return len(clients)
