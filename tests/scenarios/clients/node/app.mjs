// The event of touch.py, in JavaScript: {"mib": N, "ms": hold time}. Memory in KiB.
import { openSync, readSync } from "node:fs";
import { setTimeout } from "node:timers/promises";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

setFlagsFromString("--expose-gc");
const collect = runInNewContext("gc");
const status = openSync("/proc/self/status", "r");
const text = Buffer.alloc(4096);

function rss() {
  const length = readSync(status, text, 0, text.length, 0);
  return Number(/VmRSS:\s+(\d+)/.exec(text.toString("latin1", 0, length))[1]);
}

async function hold(mib, ms) {
  const block = Buffer.alloc(mib << 20, 1);
  const reached = rss();
  await setTimeout(ms);
  return Math.max(reached, rss());
}

export async function handler(event) {
  const before = rss();
  const truth = await hold(event.mib, event.ms);
  collect(); // else what was touched is freed in some later invocation, and who knows when
  for (let tries = 0; tries < 50 && rss() > before + 1024; tries += 1) await setTimeout(1);
  return { before, touched: truth - before, truth };
}
