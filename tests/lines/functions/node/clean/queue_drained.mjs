const q = [];
export const handler = async ({ n }) => { for (let i = 0; i < 10; i += 1) q.push({ i, rows: new Array(300).fill(n) }); while (q.length > 15) q.shift(); return {}; };
