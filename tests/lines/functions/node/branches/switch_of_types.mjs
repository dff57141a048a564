const created = new Map();
const changed = [];
const removed = new Set();

function create(event) {
  created.set(event.n, { id: event.n, rows: new Array(2000).fill(event.n) });
}

function change(event) {
  changed.push({ id: event.n, rows: new Array(2000).fill(event.n) }); // leak
}

function remove(event) {
  removed.add({ id: event.n, rows: new Array(2000).fill(event.n) });
}

export const handler = async (event) => {
  switch (event.type) {
    case "created":
      create(event);
      break;
    case "removed":
      remove(event);
      break;
    default:
      change(event);
  }
  return event.n;
};
