const seen = [];
async function load(n) {
  await null;
  return new Array(3000).fill(n);
}
export const handler = async (event) => {
  const rows = await load(event.n);
  seen.push(rows); // leak
  return { n: rows.length };
};
