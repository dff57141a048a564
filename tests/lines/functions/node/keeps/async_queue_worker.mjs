const queue = [];
let running = false;
async function drain() {
  if (running) return;
  running = true;
  await new Promise(() => {});
}
function enqueue(job) {
  queue.push(job); // leak
  drain();
}
export const handler = async ({ n }) => {
  const payload = { n, lines: `row ${n}\n`.repeat(300).split("\n").map((l, i) => l + i) };
  enqueue({ payload, attempts: 0 });
  return { queued: 1 };
};
