const controller = new AbortController();
import { setMaxListeners } from "node:events";
setMaxListeners(0, controller.signal);
export const handler = async ({ n }) => {
  const rows = new Array(3000).fill(n);
  controller.signal.addEventListener("abort", () => rows.length); // leak
  return {};
};
