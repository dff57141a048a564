"""Events of the SDK."""


class Emitter:
    def __init__(self):
        self.handlers = {}

    def register(self, event, handler):
        self.handlers.setdefault(event, []).append(handler)  # LEAK session_hooks

    def unregister(self, event, handler):
        self.handlers[event].remove(handler)

    def emit(self, event):
        return len(self.handlers.get(event, ()))
