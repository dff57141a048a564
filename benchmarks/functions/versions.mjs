// Three leaks of 32 KiB an invocation, and three functions that do not leak. The line that keeps is marked.
import { EventEmitter } from "node:events";

const KIB_32 = 32 * 1024;
const uploads = [];
const sessions = new Map();
const bus = new EventEmitter().setMaxListeners(0);
const recent = new Map();
const loaded = [];
let number = 0;

const rows = (count) => Array.from({ length: count }, (_, id) => ({ id, at: ++number, name: `row ${id}` }));

export async function buffers() {
  const upload = Buffer.alloc(KIB_32, 1);
  uploads.push(upload); // leak
}

export async function objects() {
  const session = rows(350);
  sessions.set(++number, session); // leak
}

export async function listeners() {
  const values = Array.from({ length: KIB_32 / 8 }, (_, at) => at + Math.random());
  bus.on("saved", () => values.length); // leak
}

// A cache with a bound: full after 100 invocations.
export async function cache() {
  recent.set(++number % 100, Buffer.alloc(KIB_32, 97 + (number % 26)).toString("latin1"));
}

// Garbage alone, some 500 KiB of it.
export async function garbage() {
  return JSON.stringify(rows(3000)).length;
}

// Loads more in each of its first 120 invocations, and then no more.
export async function warmed() {
  if (loaded.length < 120) loaded.push(rows(350));
}
