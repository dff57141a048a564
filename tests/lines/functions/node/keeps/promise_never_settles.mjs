const inflight = [];
async function track(promise) { inflight.push(promise); } // leak
const gates = [];
async function load(n) { const rows = new Array(3000).fill(n); await new Promise((r) => gates.push(r)); return rows; }
export const handler = async (event) => {
  track(load(event.n));
  return {};
};
