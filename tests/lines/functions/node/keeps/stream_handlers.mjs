import { Readable } from "node:stream";
const streams = new Set();
export const handler = async ({ n }) => {
  const body = Array.from({ length: 50 }, (_, i) => `line ${n} ${i}\n`);
  const stream = Readable.from(body);
  streams.add(stream); // leak
  let size = 0;
  for await (const chunk of stream) size += chunk.length;
  return { size };
};
