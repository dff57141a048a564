const results = [];
export const handler = async (event) => {
  const rows = Array.from({ length: 300 }, (_, i) => i);
  const mapped = rows.map((row) => ({ row, n: event.n }));
  const total = rows.reduce((a, b) => a + b, 0);
  results.push(...mapped); // leak
  return { total };
};
