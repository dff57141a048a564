// The same in Node.js, whose collector has threads of its own.
import { promisify } from "node:util";
import { gzip } from "node:zlib";

const settings = Object.fromEntries(Array.from({ length: 3000 }, (_, n) => [`k${n}`, [...Array(50).keys()]]));

const WORK = {
  small: () => JSON.parse(JSON.stringify({ a: 1, b: [1, 2, 3] })),
  json: () => [1, 2, 3, 4, 5].forEach(() => JSON.parse(JSON.stringify(settings))),
  buffers: () => {
    for (let n = 0; n < 20; n += 1) Buffer.alloc(4 << 20, 1);
  },
  objects: () => {
    for (let n = 0; n < 10; n += 1) Array.from({ length: 100_000 }, (_, m) => ({ m, name: `object ${m}` }));
  },
  touch: () => void Buffer.alloc(50 << 20, 1),
  twice: () => [30, 40].forEach((mib) => Buffer.alloc(mib << 20, 1)),
  answer: () => "x".repeat(1_000_000),
  compress: () => Promise.all([1, 2, 3, 4].map(() => promisify(gzip)(Buffer.alloc(4 << 20, "abc")))),
};

export const handler = async (event) => {
  const answer = await WORK[event.work]();
  return typeof answer === "string" ? answer : null;
};
