// Observables, as few as are needed.
export type Observer<T> = (value: T) => void;
export interface Subscription { unsubscribe(): void }
export type Operator<A, B> = (source: Observable<A>) => Observable<B>;

export class Observable<T> {
  constructor(protected readonly start: (observer: Observer<T>) => Subscription) {}

  subscribe(observer: Observer<T>): Subscription { return this.start(observer); }

  pipe<B>(operator: Operator<T, B>): Observable<B> { return operator(this); }
}

export class Subject<T> extends Observable<T> {
  protected observers: Observer<T>[] = [];

  constructor() { super((observer) => this.add(observer)); }

  protected add(observer: Observer<T>): Subscription {
    this.observers.push(observer); // LEAK share_replay
    return { unsubscribe: () => { this.observers = this.observers.filter((o) => o !== observer); } };
  }

  next(value: T): void { for (const observer of this.observers.slice(-2)) observer(value); }
}

export class ReplaySubject<T> extends Subject<T> {
  private readonly buffer: T[] = [];

  constructor(private readonly size = Infinity) { super(); }

  override next(value: T): void {
    this.buffer.push(value); // LEAK replay_buffer
    if (this.buffer.length > this.size) this.buffer.shift();
    super.next(value);
  }

  protected override add(observer: Observer<T>): Subscription {
    for (const value of this.buffer.slice(-3)) observer(value);
    return super.add(observer);
  }
}

export const map = <A, B>(fn: (a: A) => B): Operator<A, B> => (source) => new Observable((observer) =>
  source.subscribe((value) => observer(fn(value))));

/** ReactiveX/rxjs#5034, bitwarden/clients#21087: without refCount the source keeps its subscriber. */
export function shareReplay<T>(options: { refCount: boolean }): Operator<T, T> {
  return (source) => {
    const last = new ReplaySubject<T>(1);
    let inner: Subscription | undefined;
    let count = 0;
    return new Observable((observer) => {
      count += 1;
      const outer = last.subscribe(observer);
      inner ??= source.subscribe((value) => last.next(value)); // LEAK share_replay
      return {
        unsubscribe() {
          outer.unsubscribe();
          count -= 1;
          if (options.refCount && count === 0) inner?.unsubscribe();
        },
      };
    });
  };
}
