const w = new WeakMap();
export const handler = async (event) => { w.set(event, new Array(3000).fill(event.n)); return {}; };
