// A handler in the trouble that its events describe: the same as Trouble.java.
const kept = [];
const cache = new Map();
let calls = 0;

const OBJECT = 160; // bytes of V8's heap, about, of one of these
const objects = (kib) =>
  Array.from({ length: (kib * 1024) / OBJECT }, (_, n) => ({ n, name: `object ${n} of invocation ${calls}` }));

let state = 1;
const random = () => (state = (state * 48271) % 2147483647) / 2147483647;

export const handler = async (event) => {
  calls += 1;
  // What each invocation needs while it runs: a third more or less.
  const work = objects((event.workKiB ?? 0) * (0.67 + random() * 0.66));
  if (event.leakBytes) kept.push(objects(event.leakBytes / 1024));
  if (event.directBytes) kept.push(Buffer.alloc(event.directBytes, 1));
  for (let n = 0; n < (event.classes ?? 0); n += 1) {
    // Made to run as code that is compiled: what is not called stays source text.
    const made = new Function("a", `let s = ${calls}; for (let i = 0; i < a; i++) { s += i * ${n} } return s`);
    made(20_000);
    kept.push(made);
  }
  for (let n = 0; n < (event.lookUps ?? 0); n += 1) {
    const key = Math.floor(random() * event.keys);
    if (!cache.has(key)) cache.set(key, objects((event.block ?? 1000) / 1024));
  }
  await new Promise((resolve) => setTimeout(resolve, event.pauseMs ?? 5));
  return { answer: work.length };
};
