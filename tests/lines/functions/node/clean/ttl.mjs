const m = new Map();
export const handler = async ({ n }) => { m.set(n, new Array(3000).fill(n)); for (const k of m.keys()) if (k < n - 25) m.delete(k); return {}; };
