// Ordinary work: allocates, and lets go.
import { randomBytes } from 'node:crypto';

export const text = (kib) => randomBytes(Math.round(kib * 512)).toString('hex');

export const rows = (n, seq) => Array.from({ length: n }, (_, i) => ({
  id: `${seq}-${i}`, price: seq + i / 100, tags: ['new', `row${i}`],
}));

const rates = new Map(); // bound: 40 currencies
export function rate(seq) {
  const code = `C${seq % 40}`;
  if (!rates.has(code)) rates.set(code, { code, value: 1 + (seq % 40) / 100, note: text(1) });
  return rates.get(code).value;
}

const journal = [];
export function note(message) {
  journal.push(`${new Date().toISOString()} ${message}`);
  if (journal.length > 100) journal.shift();
}

export function order(seq, event) {
  const lines = rows(30, seq);
  const copy = JSON.parse(JSON.stringify({ lines, event, when: Date.now() }));
  const total = copy.lines.reduce((sum, l) => sum + l.price * rate(seq), 0);
  return { seq, total, lines: copy.lines };
}
