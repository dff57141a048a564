// Reads the first line of a file, and closes it.
import { open } from "node:fs/promises";
import { fileURLToPath } from "node:url";

const file = fileURLToPath(import.meta.url);

export async function handler() {
  const handle = await open(file);
  try {
    const { buffer, bytesRead } = await handle.read(Buffer.alloc(4096), 0, 4096, 0);
    return buffer.subarray(0, bytesRead).toString().split("\n")[0];
  } finally {
    await handle.close();
  }
}
