import { EventEmitter } from "node:events";
const bus = new EventEmitter();
bus.setMaxListeners(0);
function subscribe(name, rows) {
  bus.on(name, function onEvent() { // leak
    return rows.length;
  });
}
export const handler = async (event) => {
  const rows = [];
  for (let i = 0; i < 500; i += 1) rows.push({ i, n: event.n });
  subscribe("done", rows);
  return {};
};
