export const handler = async ({ n }) => { const rows = new Array(3000).fill(n); await new Promise((r) => setTimeout(() => r(rows), 1)); return {}; };
