// Compresses 150 small messages, all at once.
import { promisify } from "node:util";
import { deflate } from "node:zlib";

const compressed = promisify(deflate);

export async function handler() {
  const messages = Array.from({ length: 150 }, (_, number) => Buffer.from(JSON.stringify({ number, some: "data" })));
  const results = await Promise.all(messages.map((message) => compressed(message)));
  return results.length;
}
