// Loads a page, unless the process is to stop before.
const stopping = new Promise((resolve) => process.once("SIGUSR2", resolve));
let number = 0;

async function page() {
  await null;
  number += 1;
  return new Array(2_000).fill(number / 3);
}

export async function handler() {
  const loaded = await Promise.race([page(), stopping]);
  return loaded.length;
}
