const kept = [];
const vector = (n) => [n, n + 1, n + 2, n + 3];
const dot = (a, b) => a[0] * b[0] + a[1] * b[1];
export const handler = async ({ n }) => {
  let sum = 0;
  for (let i = 0; i < 30000; i += 1) sum += dot(vector(i), vector(n));
  const result = { sum, rows: [] };
  for (let i = 0; i < 300; i += 1) result.rows.push(vector(i));
  kept.push(result); // leak
  return sum;
};
