export const handler = async ({ n }) => { let s = 0; for (let i = 0; i < 50; i += 1) s += new Array(5000).fill(n).map((x) => x * 1.5).length; return s; };
