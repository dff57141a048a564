const groups = new Map();
export const handler = async (event) => {
  let list = groups.get("a");
  if (!list) { list = []; groups.set("a", list); }
  const item = { n: event.n, tags: new Array(1000).fill("t" + event.n) };
  list.push(item); // leak
  return {};
};
