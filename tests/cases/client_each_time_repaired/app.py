"""Makes one client that sends in the background, for all events."""

import socket
import threading

broker = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
broker.bind(("127.0.0.1", 0))


class Client:
    def __init__(self) -> None:
        self.connection = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.connection.connect(broker.getsockname())
        self.messages, self.waiting = socket.socketpair()
        threading.Thread(target=self.send, daemon=True).start()

    def send(self) -> None:
        while message := self.waiting.recv(100):
            self.connection.send(message)


client = Client()


def handler(event: object, context: object) -> int:
    return client.messages.send(b"an event")
