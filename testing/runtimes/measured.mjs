// As measured.py: V8's heap and what it accounts for outside of it, KiB. Standard input says how many invocations to make
// before the next line of JSON. With CASE_COLLECT, which needs --expose-gc, the collector runs before.
import { createInterface } from "node:readline";

const { handler } = await import(`${process.cwd()}/index.mjs`);
const event = JSON.parse(process.env.CASE_EVENT);
let failed = 0;
for await (const line of createInterface({ input: process.stdin })) {
  for (let number = 0; number < Number(line); number += 1) {
    try {
      await handler(event, {});
    } catch {
      failed += 1;
    }
    await new Promise((resolve) => setImmediate(resolve));
  }
  if (process.env.CASE_COLLECT) for (let round = 0; round < 3; round += 1) globalThis.gc();
  const { heapUsed, external } = process.memoryUsage(); // external has the array buffers
  process.stdout.write(`${JSON.stringify({ used: (heapUsed + external) >> 10, failed })}\n`);
}
process.exit(0);
