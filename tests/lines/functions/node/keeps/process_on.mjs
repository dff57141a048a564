process.setMaxListeners(0);
export const handler = async (event) => {
  const context = { event, rows: new Array(4000).fill(event.n) };
  process.on("beforeExit", () => context.rows.length); // leak
  return {};
};
