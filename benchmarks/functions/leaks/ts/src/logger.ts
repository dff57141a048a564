import { EventEmitter } from 'node:events';
import { PassThrough } from 'node:stream';

export class Transport extends EventEmitter {
  lines = 0;
  write(line: string): void { this.lines += line.length ? 1 : 0; }
}

/** STN-DTS/canadian-dental-care-plan#3432: each logger listens to the shared transport. */
export class Logger {
  private failed = 0;
  private readonly onError: () => void;

  constructor(private readonly transport: Transport, private readonly fields: Record<string, unknown>) {
    this.onError = () => { this.failed += Object.keys(this.fields).length; };
    transport.on('error', this.onError); // LEAK transport_listeners
    transport.on('finish', this.onError); // LEAK transport_listeners
  }

  info(message: string): void { this.transport.write(JSON.stringify({ message, failed: this.failed })); }

  close(): void {
    this.transport.off('error', this.onError);
    this.transport.off('finish', this.onError);
  }
}

/** winstonjs/winston#2114: without a transport nobody reads the lines. */
export class Backlog {
  private readonly stream = new PassThrough({ objectMode: true }); // LEAK log_backlog

  constructor(transports: Transport[]) {
    for (const transport of transports) this.stream.on('data', (line: { message: string }) => transport.write(line.message));
  }

  log(level: string, message: string, meta: object): void {
    this.stream.write({ level, message, ...meta }); // LEAK log_backlog
  }
}

export interface ScopeData { tags: Record<string, string>; extra?: unknown }

/** getsentry/sentry-javascript#2201: a scope that is not popped. */
export class Hub {
  private readonly stack: ScopeData[] = [{ tags: {} }];

  async withScope<T>(work: (scope: ScopeData) => Promise<T>, always: boolean): Promise<T> {
    const top = this.stack[this.stack.length - 1]!;
    const scope: ScopeData = { tags: { ...top.tags } };
    this.stack.push(scope); // LEAK scope_stack
    try {
      const result = await work(scope);
      this.stack.pop();
      return result;
    } catch (error) {
      if (always) this.stack.pop();
      throw error;
    }
  }
}

/** Jeff-Lewis/cls-hooked#63: each context leads to the one before. */
export class Namespace {
  private active: object | null = null;

  enter(values: Record<string, unknown>): object {
    this.active = { ...values, parent: this.active }; // LEAK context_chain
    return this.active;
  }

  exit(context: object): void { if (this.active === context) this.active = (context as { parent: object | null }).parent; }
}
