const cache = {};
export const handler = async (event) => {
  const view = new Uint8Array(30000);
  view[0] = event.n;
  cache[event.n] = view; // leak
  return { size: view.length };
};
