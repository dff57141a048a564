const registry = [];
class Session {
  constructor(n) {
    this.data = new Array(3000).fill(n);
    registry.push(this); // leak
  }
}
export const handler = async (event) => { const s = new Session(event.n); return { n: s.data.length }; };
