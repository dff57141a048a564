const seen = new Set();
export const handler = async ({ n }) => {
  for (let i = 0; i < 200; i += 1) {
    const key = { n, i, text: `${n}-${i}` };
    if (!seen.has(key)) {
      seen.add(key); // leak
    }
  }
  return { size: 1 };
};
