"""Signals of the shop."""


class Signal:
    def __init__(self):
        self.receivers = {}

    def connect(self, receiver):
        self.receivers[id(receiver)] = receiver  # LEAK signal_receivers

    def disconnect(self, receiver):
        self.receivers.pop(id(receiver), None)

    def send(self, order):
        return [receiver(order) for receiver in self.receivers.values()]


order_placed = Signal()
