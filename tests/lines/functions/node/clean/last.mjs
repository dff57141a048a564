let last; let before;
export const handler = async ({ n }) => { before = last; last = { rows: new Array(20000).fill(n) }; return {}; };
