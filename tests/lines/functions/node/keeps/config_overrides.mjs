import { AsyncLocalStorage } from "node:async_hooks";
const storage = new AsyncLocalStorage();
const sessions = [];
const current = () => storage.getStore();
function note(key, value) {
  const store = current();
  store[key] = value;
}
export const handler = ({ n }) => storage.run({ n }, async () => {
  sessions.push(current()); // leak
  note("rows", new Array(1000).fill(n));
  await null;
  return { n };
});
