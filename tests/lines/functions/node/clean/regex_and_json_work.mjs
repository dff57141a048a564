const text = "lorem ipsum dolor ".repeat(2000);
export const handler = async ({ n }) => { const words = text.split(" ").map((w) => w + n); const c = new Map(); for (const w of words) c.set(w, (c.get(w) || 0) + 1); return JSON.stringify([...c]).length; };
