import { createDeflateRaw } from 'node:zlib';

// websockets/ws#497: a compression context for each connection
const contexts = new Map();
export function compress(id, message, release) {
  let deflate = contexts.get(id);
  if (!deflate) {
    deflate = createDeflateRaw({ windowBits: 9, memLevel: 2 }); // LEAK deflate_ctx
    contexts.set(id, deflate); // LEAK deflate_ctx
  }
  return new Promise((resolve, reject) => {
    let size = 0;
    deflate.on('data', (d) => { size += d.length; });
    deflate.once('error', reject);
    deflate.write(message, () => deflate.flush(() => {
      if (release) { deflate.close(); contexts.delete(id); }
      resolve(size);
    }));
  });
}
