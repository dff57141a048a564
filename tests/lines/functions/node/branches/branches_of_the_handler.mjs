const created = new Map();
const changed = [];

export const handler = async (event) => { // function
  const order = { id: event.n, rows: new Array(2000).fill(event.n) };
  if (event.type === "created") created.set(event.n, order);
  else changed.push(order);
  return order.rows.length;
};
