// Looks a place up for each address, and keeps the last 600 of them.
import { LRUCache } from "lru-cache";

const places = new LRUCache({ max: 600 });
let last = 0;

function find(address) {
  return { address, borders: Array.from({ length: 4000 }, (_, number) => address + number / 7) };
}

export async function handler() {
  last += 1;
  if (!places.has(last)) places.set(last, find(last));
  return places.size;
}
