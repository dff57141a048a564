const a = [];
const b = new Map();
function big(n) { a.push(new Array(4000).fill(n)); } // leak
function small(n) { b.set(n, new Array(400).fill(n)); }
export const handler = async (event) => { big(event.n); small(event.n); return {}; };
