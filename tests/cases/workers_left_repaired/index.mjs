// Sums numbers in a thread of its own, so that the event loop is free.
import { Worker } from "node:worker_threads";
import { once } from "node:events";

const code = `
  const { parentPort } = require("node:worker_threads");
  parentPort.on("message", (numbers) => parentPort.postMessage(numbers.reduce((sum, number) => sum + number, 0)));
`;
const worker = new Worker(code, { eval: true });

export async function handler() {
  worker.postMessage([1, 2, 3, 4]);
  const [sum] = await once(worker, "message");
  return sum;
}
