export type Formatter<T> = (value: T) => string;

/** i18next/i18next#2227: the key has all options, the value too. */
export function cachedFormatter<T>(make: (lng: string, options: object) => Formatter<T>, keyOf: (o: object) => string) {
  const cache: Record<string, Formatter<T>> = {};
  return (value: T, lng: string, options: object): string => {
    const key = lng + keyOf(options);
    let formatter = cache[key];
    if (!formatter) {
      formatter = make(lng, options); // LEAK json_formatter
      cache[key] = formatter; // LEAK json_formatter
    }
    return formatter(value);
  };
}

/** OpenCTI-Platform/opencti#2878: one loader for all requests, with its cache. */
export class DataLoader<K, V> {
  private readonly cacheMap?: Map<K, Promise<V>>;
  private batch: { key: K; resolve: (value: V) => void }[] = [];

  constructor(private readonly load: (keys: K[]) => Promise<V[]>, options: { cache: boolean }) {
    if (options.cache) this.cacheMap = new Map();
  }

  get(key: K): Promise<V> {
    const known = this.cacheMap?.get(key);
    if (known) return known;
    const promise = new Promise<V>((resolve) => { this.batch.push({ key, resolve }); }); // LEAK dataloader_cache
    if (this.batch.length === 1) process.nextTick(() => void this.dispatch());
    this.cacheMap?.set(key, promise); // LEAK dataloader_cache
    return promise;
  }

  private async dispatch(): Promise<void> {
    const batch = this.batch;
    this.batch = [];
    const values = await this.load(batch.map((b) => b.key));
    batch.forEach((b, i) => b.resolve(values[i]!));
  }
}

/** apollographql/apollo-client#13074: a node for each step of a key. */
export class Trie<Data> {
  private readonly children = new Map<unknown, Trie<Data>>();
  private data?: Data;

  constructor(private readonly make: () => Data) {}

  lookup(...keys: unknown[]): Data {
    let node: Trie<Data> = this;
    for (const key of keys) node = node.child(key);
    node.data ??= node.make();
    return node.data;
  }

  private child(key: unknown): Trie<Data> {
    let child = this.children.get(key);
    if (!child) this.children.set(key, child = new Trie<Data>(this.make)); // LEAK key_trie
    return child;
  }

  remove(key: unknown): void { this.children.delete(key); }
}

/** martinamps/ua-starlink-tracker#15: an entry goes only when its own key is asked for again. */
export class TtlCache<K, V> {
  #entries = new Map<K, { value: V; until: number }>();

  constructor(private readonly ttl: number, private readonly max = Infinity) {}

  async wrap(key: K, load: () => Promise<V>): Promise<V> {
    const hit = this.#entries.get(key);
    if (hit && hit.until > Date.now()) return hit.value;
    this.#entries.delete(key);
    const value = await load();
    this.#entries.set(key, { value, until: Date.now() + this.ttl }); // LEAK route_cache
    if (this.#entries.size > this.max) this.#entries.delete(this.#entries.keys().next().value as K);
    return value;
  }
}

/** SandeepVashishtha/Eventra#5930: hits by address. */
export abstract class RateLimiter {
  private static hits: { [address: string]: { at: number[]; agent: string } } = {};

  static allow(address: string, agent: string, sweep: boolean): boolean {
    const now = Date.now();
    if (sweep) for (const old of Object.keys(this.hits)) if (old !== address) delete this.hits[old];
    const entry = (this.hits[address] ??= { at: [], agent }); // LEAK rate_limiter
    entry.at = entry.at.filter((t) => now - t < 60_000);
    entry.at.push(now);
    return entry.at.length < 20;
  }
}
