const remembered = new Map();
const stored = [];

function remember(order) {
  remembered.set(order.id, order);
}

const store = (order) => {
  stored.push(order); // leak
};

export const handler = async (event) => {
  const order = { id: event.n, rows: new Array(2000).fill(event.n) };
  if (event.n === 40) remember(order);
  else store(order);
  return order.rows.length;
};
