class Poller {
  constructor(n) {
    this.state = new Array(3000).fill(n);
  }
  start() {
    this.timer = setInterval(() => this.tick(), 3600000); // leak
    this.timer.unref();
  }
  tick() { return this.state.length; }
}
export const handler = async (event) => { const p = new Poller(event.n); p.start(); return {}; };
