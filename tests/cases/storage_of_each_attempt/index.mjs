// Runs an attempt with a store of its own, into which it writes what was said.
import { AsyncLocalStorage } from "node:async_hooks";

class Transcript extends AsyncLocalStorage {
  lines = [];
}

async function attempt(transcript) {
  await null;
  for (let line = 0; line < 900; line += 1) transcript.lines.push(transcript.getStore().attempt + line / 100);
  return transcript.lines.length;
}

let attempts = 0;

export async function handler() {
  attempts += 1;
  const transcript = new Transcript();
  return transcript.run({ attempt: attempts }, () => attempt(transcript));
}
