const remembered = new Map();
const stored = [];
const body = JSON.stringify(Array.from({ length: 300 }, (_, i) => ({ i, name: `name ${i}`, tags: ["a", "b"] })));

function remember(order) {
  remembered.set(order.id, order);
}

function store(order) {
  stored.push(order); // leak
}

const parse = (text) => JSON.parse(text).map((row) => ({ ...row, upper: row.name.toUpperCase() }));

export const handler = async (event) => {
  const rows = parse(body);
  const order = { id: event.n, rows: rows.slice(0, 100) };
  if (event.type === "remember") remember(order);
  else store(order);
  return rows.length;
};
