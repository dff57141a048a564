// Compresses 150 small messages, one after the other.
import { deflateSync } from "node:zlib";

export async function handler() {
  const messages = Array.from({ length: 150 }, (_, number) => Buffer.from(JSON.stringify({ number, some: "data" })));
  const results = messages.map((message) => deflateSync(message));
  return results.length;
}
