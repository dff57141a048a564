export const handler = async ({ n }) => { const b = Buffer.alloc(200000, 1); return b.subarray(0, 3).toString("hex"); };
