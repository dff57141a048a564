import { randomBytes } from 'node:crypto';

export interface Row { id: string; price: number; tags: string[] }

export const text = (kib: number): string => randomBytes(Math.round(kib * 512)).toString('hex');

export const rows = (n: number, seq: number): Row[] => Array.from({ length: n }, (_, i) => ({
  id: `${seq}-${i}`, price: seq + i / 100, tags: ['new', `row${i}`],
}));

/** A cache with a bound. */
export class Bounded<K, V> {
  private readonly entries = new Map<K, V>();
  constructor(private readonly max: number) {}

  get(key: K, make: (key: K) => V): V {
    let value = this.entries.get(key);
    if (value === undefined) {
      value = make(key);
      this.entries.set(key, value);
      if (this.entries.size > this.max) this.entries.delete(this.entries.keys().next().value as K);
    }
    return value;
  }
}

const rates = new Bounded<string, { value: number; note: string }>(30);
export function order(seq: number, event: unknown): { total: number; lines: Row[] } {
  const copy = JSON.parse(JSON.stringify({ lines: rows(30, seq), event })) as { lines: Row[] };
  const rate = rates.get(`C${seq % 40}`, () => ({ value: 1 + (seq % 40) / 100, note: text(1) }));
  return { total: copy.lines.reduce((sum, l) => sum + l.price * rate.value, 0), lines: copy.lines };
}
