const lru = new Map();
for (let i = -500; i < 0; i += 1) lru.set(i, { i, a: [i, i, i, i, i] });
export const handler = async ({ n }) => {
  for (let k = 0; k < 5; k += 1) {
    lru.set(n * 5 + k, { n, a: [n, k, n, k, n] });
    if (lru.size > 500) lru.delete(lru.keys().next().value);
  }
  return {};
};
