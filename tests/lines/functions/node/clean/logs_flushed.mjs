let logs = [];
const flush = () => { const out = logs; logs = []; return out.length; };
export const handler = async ({ n }) => { for (let i = 0; i < 100; i++) logs.push({ i, n, text: "x".repeat(20) + i }); return flush(); };
