// Keeps the last hundred pages: what leaves the list has become old, and waits for a full collection.
const pages = [];

export async function handler() {
  pages.push(Array.from({ length: 2000 }, (_, row) => ({ row, text: `row ${row}` })));
  if (pages.length > 100) pages.shift();
  return pages.length;
}
