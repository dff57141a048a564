class Repo {
  constructor() { this.byId = {}; }
  put(item) {
    const { id } = item;
    this.byId[id] = item; // leak
    return item;
  }
}
const repo = new Repo();
const build = (n) => {
  const item = { id: n };
  item.rows = Array.from({ length: 1000 }, (_, i) => i * n);
  return item;
};
export async function handler({ n }) {
  const item = build(n);
  return repo.put(item).rows.length;
}
