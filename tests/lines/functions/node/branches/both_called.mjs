const latest = new Map();
const stored = [];

function remember(order) {
  latest.set("latest", order);
}

function store(order) {
  stored.push(order);
}

export const handler = async (event) => { // function
  const order = { id: event.n, rows: new Array(2000).fill(event.n) };
  if (event.n % 5 === 0) remember(order);
  else store(order);
  return order.rows.length;
};
