"""Opens a connection, asks it something, and closes it. It also closes itself when the program ends."""

import atexit
import itertools

numbers = itertools.count()


class Connection:
    def __init__(self) -> None:
        self.received = bytearray(24_000)
        self.open = True
        atexit.register(self.close)

    def ask(self, number: int) -> int:
        self.received[number % 24_000] = number % 256
        return number

    def close(self) -> None:
        self.open = False


def handler(event: object, context: object) -> int:
    connection = Connection()
    try:
        return connection.ask(next(numbers))
    finally:
        connection.close()
