function memoize(fn) {
  const cache = new Map();
  return (key) => {
    if (cache.has(key)) return cache.get(key);
    const value = fn(key);
    cache.set(key, value); // leak
    return value;
  };
}
const render = memoize((n) => `<p>${"text".repeat(50)}${n}</p>`.split("").map((c) => c + n));
export const handler = async (event) => ({ size: render(event.n).length });
