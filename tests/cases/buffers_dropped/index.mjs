// Prints a document into a buffer, and tells its size.
let documents = 0;

function printed() {
  documents += 1;
  const pages = [];
  for (let page = 0; page < 5; page += 1) pages.push(Buffer.alloc(60_000, documents + page));
  return Buffer.concat(pages);
}

export async function handler() {
  return printed().length;
}
