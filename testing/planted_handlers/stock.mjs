const stock = new Map([["one", 5]]);

function reserve(name, number) {
  // slot
  stock.set(name, Math.max(0, stock.get(name) - number) || 5);
  return stock.get(name);
}

export const handler = async (event) => {
  const left = reserve("one", 1);
  // slot
  return { left };
};
