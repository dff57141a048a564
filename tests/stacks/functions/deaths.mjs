// A function that takes memory without end in the way that `case` names. Lines that take memory are marked.
import { fork, spawnSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { setTimeout as rest } from "node:timers/promises";
import { Worker } from "node:worker_threads";
import zlib from "node:zlib";
import { keep } from "hoard";

const held = [];
const MIB = 2 ** 20;

const cases = {
  objects() {
    for (let n = 0; ; n += 1) held.push({ n, list: [n, n + 1], text: `order ${n}` }); // allocates
  },
  objects_of_a_class() {
    class Order {
      constructor(n) {
        this.items = new Array(20).fill(n); // allocates
        this.n = n;
      }
    }
    for (let n = 0; ; n += 1) held.push(new Order(n)); // allocates
  },
  arrays() {
    for (;;) {
      const many = [];
      for (let n = 0; n < 50_000; n += 1)
        many.push(n * 1.1); // allocates
      held.push(many);
    }
  },
  filled() {
    for (;;) held.push(new Array(200_000).fill("x")); // allocates
  },
  strings() {
    for (let n = 0; ; n += 1)
      held.push(`${n}`.padEnd(40_000, "ab")); // allocates
  },
  joined() {
    const parts = Array.from({ length: 20_000 }, (_, n) => `part ${n}`);
    for (;;)
      held.push(parts.join(",")); // allocates
  },
  buffers() {
    for (;;) held.push(Buffer.alloc(100_000, 1)); // allocates
  },
  buffer_concat() {
    const part = Buffer.alloc(MIB, 1);
    for (;;) {
      const both = Buffer.concat([part, part]); // allocates
      held.push(both);
    }
  },
  typed() {
    for (;;) {
      const numbers = new Float64Array(100_000).fill(1.5); // allocates
      held.push(numbers);
    }
  },
  map() {
    const map = new Map();
    held.push(map);
    for (let n = 0; n < 14_000_000; n += 1)
      map.set(`key ${n}`, n); // allocates
    for (;;) held.push(new Map(map)); // allocates
  },
  sets() {
    for (;;) {
      const all = new Set();
      for (let n = 0; n < 100_000; n += 1)
        all.add(n + 0.5); // allocates
      held.push(all);
    }
  },
  json() {
    const text = JSON.stringify(Array.from({ length: 200_000 }, (_, n) => ({ n, tags: ["a", "b"] })));
    for (;;) held.push(JSON.parse(text)); // allocates
  },
  stringified() {
    const orders = Array.from({ length: 20_000 }, (_, n) => ({ n, tags: ["a", "b"] }));
    for (;;) {
      const text = JSON.stringify(orders); // allocates
      held.push(text);
    }
  },
  inflated() {
    const small = zlib.gzipSync(Buffer.alloc(20 * MIB));
    for (;;) held.push(zlib.gunzipSync(small)); // allocates
  },
  file() {
    writeFileSync("/tmp/large", Buffer.alloc(8 * MIB, 1));
    for (;;) held.push(readFileSync("/tmp/large")); // allocates
  },
  text_of_a_file() {
    writeFileSync("/tmp/large", Buffer.alloc(8 * MIB, 97));
    for (;;)
      held.push(readFileSync("/tmp/large", "utf8")); // allocates
  },
  cloned() {
    const orders = Array.from({ length: 50_000 }, (_, n) => ({ n, tags: ["a", "b"] }));
    for (;;) {
      const copy = structuredClone(orders); // allocates
      held.push(copy);
    }
  },
  matched() {
    const text = "a1b2c3".repeat(50_000);
    for (;;) held.push(text.match(/[a-z]\d/g)); // allocates
  },
  split() {
    const text = "order,line\n".repeat(50_000);
    for (let n = 0; ; n += 1)
      held.push(`${n}${text}`.split("\n")); // allocates
  },
  mapped() {
    const numbers = Array.from({ length: 100_000 }, (_, n) => n);
    for (;;)
      held.push(numbers.map((n) => ({ n }))); // allocates
  },
  library() {
    for (;;) keep(100_000); // allocates
  },
  async awaited() {
    for (;;) {
      await rest(1);
      for (let n = 0; n < 20; n += 1)
        held.push(Buffer.alloc(200_000, 1)); // allocates
    }
  },
  async awaited_objects() {
    for (;;) {
      await null;
      held.push(Array.from({ length: 10_000 }, (_, n) => ({ n }))); // allocates
    }
  },
  timer() {
    const tick = () => {
      for (let n = 0; n < 50; n += 1) held.push({ n, rest: Buffer.alloc(100_000, 1) }); // allocates
    };
    setInterval(tick, 1);
    return new Promise(() => {});
  },
  generator() {
    function* orders() {
      for (let n = 0; ; n += 1)
        yield { n, body: "x".repeat(500) + n }; // allocates
    }
    for (const order of orders())
      held.push(order); // allocates
  },
  recursion() {
    const tree = (depth) => {
      if (!depth) return Buffer.alloc(5_000, 1); // allocates
      return [tree(depth - 1), tree(depth - 1)]; // allocates
    };
    for (;;)
      held.push(tree(8)); // allocates
  },
  once() {
    held.push(Buffer.alloc(900 * MIB, 1)); // allocates
  },
  text_once() {
    held.push(Buffer.alloc(900 * MIB, "ab")); // allocates
  },
  spread() {
    const order = Object.fromEntries(Array.from({ length: 200 }, (_, n) => [`field${n}`, n]));
    for (;;)
      held.push({ ...order }); // allocates
  },
  async files() {
    writeFileSync("/tmp/large", Buffer.alloc(8 * MIB, 1));
    for (;;) held.push(await readFile("/tmp/large"));
  },
  worker() {
    const code = "const held = []; for (;;) held.push(Buffer.alloc(100_000, 1));";
    new Worker(code, { eval: true, resourceLimits: { maxOldGenerationSizeMb: 4096 } });
    return new Promise(() => {});
  },
  worker_while_it_computes() {
    const code = "const held = []; for (;;) held.push(Buffer.alloc(100_000, 1));";
    new Worker(code, { eval: true });
    const began = Date.now();
    let sum = 0;
    while (Date.now() - began < 60_000) sum += JSON.stringify([sum]).length;
    return sum;
  },
  child() {
    const code = "const held = []; for (;;) held.push(Buffer.alloc(100_000, 1));";
    return spawnSync(process.execPath, ["--max-old-space-size=4096", "-e", code]).status;
  },
  child_of_fork() {
    fork(new URL(import.meta.url), ["fork"]);
    return new Promise(() => {});
  },
  garbage() {
    // what is thrown away is at other lines than what is kept
    for (let n = 0; ; n += 1) {
      let sum = 0;
      for (let i = 0; i < 100; i += 1) sum += i * n;
      held.push({ n, sum, list: new Array(30).fill(n) }); // allocates
    }
  },
};

if (process.argv[2] === "fork") for (;;) held.push(Buffer.alloc(100_000, 1)); // allocates

export async function handler(event) {
  if (event.case) return cases[event.case](); // calls
  return Object.keys(cases);
}
