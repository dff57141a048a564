// Renders a page for each request, which takes long, and keeps as many of them as its maximum allows.
import { LRUCache } from "lru-cache";

const pages = new LRUCache({ max: 100_000 });
let last = 0;

export async function handler() {
  last += 1;
  pages.set(`/pages/${last}`, Buffer.alloc(40_000, last));
  return pages.size;
}
