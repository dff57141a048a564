// The same as sizes.py, in Node.js.
import { createHash, pbkdf2 } from "node:crypto";
import { createInterface } from "node:readline";
import { setTimeout as wait } from "node:timers/promises";
import { promisify } from "node:util";

const data = Buffer.alloc(1 << 20, 1);
const compute = (rounds) => {
  for (let round = 0; round < rounds; round += 1) createHash("sha256").update(data).digest();
};
const handlers = {
  node_computes: async () => {
    for (let round = 0; round < 8; round += 1) {
      JSON.parse(JSON.stringify(Array.from({ length: 20_000 }, (_, id) => ({ id, name: `row ${id}` }))));
    }
  },
  node_in_turn: async () => {
    await wait(50);
    compute(30);
  },
  node_pool: () => Promise.all([1, 2].map(() => promisify(pbkdf2)("a", "b", 40_000, 32, "sha256"))),
};

const measured = async (name) => {
  const begun = performance.now();
  const before = process.cpuUsage();
  await handlers[name]();
  const duration = performance.now() - begun;
  const { user, system } = process.cpuUsage(before);
  return [duration, (user + system) / 1000];
};

export const handler = () => measured(process.env.WORK);

const [name] = process.argv.slice(2);
if (name in handlers) {
  console.log("ready");
  for await (const _ of createInterface({ input: process.stdin })) console.log(...(await measured(name)));
}
