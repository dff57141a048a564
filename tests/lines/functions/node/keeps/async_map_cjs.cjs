const map = new Map();
class Service {
  constructor() { this.h = []; }
  async run(n) {
    await new Promise((r) => setImmediate(r));
    const junk = JSON.parse(JSON.stringify({ a: new Array(100).fill("x".repeat(10)) }));
    map.set("k" + n, // leak
      { text: ("v" + n).repeat(300) + "", list: [n, n, n].map((x) => ({ x })) });
    return junk;
  }
}
const s = new Service();
exports.handler = async (e) => { const r = await s.run(e.n); return r.a.length; };
