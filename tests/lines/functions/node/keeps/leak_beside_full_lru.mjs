const lru = new Map();
for (let i = -100; i < 0; i += 1) lru.set(i, new Array(3000).fill(i));
const kept = [];
export const handler = async ({ n }) => {
  lru.set(n, new Array(3000).fill(n));
  if (lru.size > 100) lru.delete(lru.keys().next().value);
  kept.push({ n, rows: new Array(2000).fill(n) }); // leak
  return {};
};
