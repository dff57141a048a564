// Loads a page, unless the process is to stop before.
const stopping = new Promise((resolve) => process.once("SIGUSR2", resolve));
const waiting = new Set();
stopping.then(() => waiting.forEach((stop) => stop()));
let number = 0;

async function page() {
  await null;
  number += 1;
  return new Array(2_000).fill(number / 3);
}

function unlessStopped(promise) {
  return new Promise((resolve, reject) => {
    waiting.add(resolve);
    promise.then(resolve, reject).finally(() => waiting.delete(resolve));
  });
}

export async function handler() {
  const loaded = await unlessStopped(page());
  return loaded.length;
}
