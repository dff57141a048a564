"""A session of the SDK."""


class Session:
    def __init__(self, emitter, n):
        self.emitter = emitter
        self.shapes = {f"Shape{i}": {"type": "structure", "members": [f"{n}.{i}"]} for i in range(40)}  # LEAK session_hooks
        emitter.register("creating-client", self.add_methods)  # LEAK session_hooks

    def add_methods(self, client):
        client.update(self.shapes)

    def client(self, service):
        return {"service": service, "handlers": self.emitter.emit("creating-client")}

    def close(self):
        self.emitter.unregister("creating-client", self.add_methods)
