const kept = [];
const parse = (n) => JSON.parse(JSON.stringify(Array.from({ length: 3000 }, (_, i) => ({ i, n, s: "x" + i }))));
export const handler = async ({ n }) => {
  const rows = parse(n);
  const sums = rows.map((r) => r.i + r.n).filter((x) => x % 2);
  kept.push(rows.slice(0, 100)); // leak
  return sums.length;
};
