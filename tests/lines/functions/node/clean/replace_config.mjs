let config = {};
export const handler = async ({ n }) => { config = { ...config, n, rows: Array.from({ length: 1000 }, (_, i) => ({ i })) }; return config.rows.length; };
