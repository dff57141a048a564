const seen = [];
const load = async (n) => {
  await new Promise((r) => setTimeout(r, 1));
  return { rows: new Array(3000).fill(n) };
};
export const handler = async (event) => {
  seen.push(await load(event.n)); // leak
  return {};
};
