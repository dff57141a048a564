class Registry {
  static #all = new Map();
  static register(key, factory) {
    const instance = factory();
    Registry.#all.set(key, instance); // leak
    return instance;
  }
}
export const handler = async ({ n }) => {
  const made = Registry.register(`svc-${n}`, () => ({ n, table: new Array(600).fill(0).map((_, i) => i * n) }));
  return { size: made.table.length };
};
