// A client with a queue that is flushed from time to time; nothing shuts it down.
class Client {
  constructor() {
    this.queue = [];
    setInterval(() => this.queue.splice(0), 60_000).unref();
  }
}

export async function handler() {
  const client = new Client();
  client.queue.push("x".repeat(100) + Math.random(), new Array(1000).fill(0.5));
  return "done";
}
