const m = new Map();
for (let i = -100; i < 0; i += 1) m.set(i, new Array(2000).fill(i));
export const handler = async ({ n }) => { m.set(n, new Array(2000).fill(n)); m.delete(m.keys().next().value); return {}; };
