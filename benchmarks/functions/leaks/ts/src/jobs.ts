import { MessageChannel } from 'node:worker_threads';

export type Job = (done: () => void) => void;

/** websockets/ws#1617: jobs that never call back, and those behind them. */
export class Limiter {
  private pending = 0;
  private readonly jobs: Job[] = [];

  constructor(private readonly concurrency: number) {}

  add(job: Job): void {
    this.jobs.push(job); // LEAK limiter_jobs
    this.run();
  }

  private run(): void {
    while (this.pending < this.concurrency && this.jobs.length) {
      const job = this.jobs.shift()!;
      this.pending += 1;
      job(() => { this.pending -= 1; this.run(); });
    }
  }
}

/** Asks a port, and waits for one answer. */
export function ask<T>(question: T, close: boolean): Promise<T> {
  const { port1, port2 } = new MessageChannel(); // LEAK port_reply
  return new Promise((resolve) => {
    port1.on('message', (answer: T) => { // LEAK port_reply
      if (close) port1.close();
      else port1.unref();
      resolve(answer);
    });
    port2.on('message', (message: T) => port2.postMessage(message));
    port2.unref();
    port1.postMessage(question);
  });
}

/** mochajs/mocha#432: what is removed is another function than what was added. */
export class Session {
  constructor(private readonly target: EventTarget, readonly cart: object[], same: boolean) {
    const handler = this.onLogout.bind(this);
    this.target.addEventListener('logout', handler); // LEAK bound_handler
    this.end = () => this.target.removeEventListener('logout', same ? handler : this.onLogout.bind(this));
  }

  readonly end: () => void;

  private onLogout(): void { this.cart.length = 0; }
}
