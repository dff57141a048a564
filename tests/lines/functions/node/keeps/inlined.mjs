// V8 has inlined `keep` when the first event comes: it has no frame.
const kept = [];
function keep(n) {
  kept.push({ n, text: [n, n, n, n, n, n, n, n, n, n, n, n] }); // leak
}
function each(from, to) {
  for (let n = from; n < to; n += 1) keep(n);
}
for (let i = 0; i < 3000; i += 1) {
  each(0, 100);
  kept.length = 0;
}
export const handler = async ({ n }) => {
  each(n, n + 100);
  return kept.length;
};
