let items = [];
const make = (n) => ({ id: n, body: new Array(1500).fill(n) });
export const handler = async (event) => {
  items = [...items, make(event.n)]; // leak
  return {};
};
