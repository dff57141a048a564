const daily = {};
export const handler = async ({ n }) => { const k = new Date().toISOString().slice(0, 10); daily[k] = { n, rows: new Array(2000).fill(n) }; return {}; };
