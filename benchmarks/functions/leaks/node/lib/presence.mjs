// yjs/y-websocket#23: the ping interval of a closed connection
export class Connection {
  constructor(id, state) {
    this.id = id;
    this.state = state;
    this.missed = 0;
    this.timer = setInterval(() => this.ping(), 45_000); // LEAK presence_ping
    this.timer.unref();
  }

  ping() { this.missed += this.state.length ? 1 : 0; }

  close(clear) {
    if (clear) clearInterval(this.timer);
    this.closed = true;
  }
}
