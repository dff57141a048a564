// A leak of 32 KiB an invocation, and garbage that is none.
const uploads = [];
const rows = (count) => Array.from({ length: count }, (_, id) => ({ id, at: Math.random(), name: `row ${id}` }));

export async function buffers() {
  uploads.push(Buffer.alloc(32 * 1024, 1));
}

export async function garbage() {
  return JSON.stringify(rows(3000)).length;
}
