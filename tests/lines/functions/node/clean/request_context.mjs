import { AsyncLocalStorage } from "node:async_hooks";
const storage = new AsyncLocalStorage();
export const handler = ({ n }) => storage.run({ n, rows: new Array(3000).fill(n) }, async () => { await new Promise((r) => setTimeout(r, 1)); return storage.getStore().rows.length; });
