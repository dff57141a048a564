// Runs an attempt with a store of its own, into which it writes what was said.
import { AsyncLocalStorage } from "node:async_hooks";

const transcript = new AsyncLocalStorage();

async function attempt() {
  await null;
  const { number, lines } = transcript.getStore();
  for (let line = 0; line < 900; line += 1) lines.push(number + line / 100);
  return lines.length;
}

let attempts = 0;

export async function handler() {
  attempts += 1;
  return transcript.run({ number: attempts, lines: [] }, attempt);
}
