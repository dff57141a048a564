const latest = new Map();
const all = [];

export const handler = async (event) => { // function
  const order = { id: event.n, rows: new Array(2000).fill(event.n) };
  latest.set(event.n % 10, order);
  all.push(order);
  return order.rows.length;
};
