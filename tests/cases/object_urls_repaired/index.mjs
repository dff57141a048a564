// Offers a picture under an URL of its own, and reads it there.
import { resolveObjectURL } from "node:buffer";

let number = 0;

export async function handler() {
  number += 1;
  const url = URL.createObjectURL(new Blob([new Uint8Array(48_000).fill(number)]));
  const size = (await resolveObjectURL(url).arrayBuffer()).byteLength;
  URL.revokeObjectURL(url);
  return size;
}
