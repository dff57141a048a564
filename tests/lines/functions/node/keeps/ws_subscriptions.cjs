const { EventEmitter } = require("events");
class Client extends EventEmitter {
  constructor() { super(); this.setMaxListeners(0); }
  query(sql, cb) {
    const ctx = { sql, started: Date.now(), rows: [] };
    for (let i = 0; i < 200; i++) ctx.rows.push({ i, sql });
    this.once(`result-${ctx.started}-x`, (r) => cb(null, ctx, r)); // leak
    setImmediate(() => cb(null, ctx));
  }
}
const db = new Client();
exports.handler = (event) => new Promise((resolve, reject) => {
  db.query("select " + event.n, (err, ctx) => err ? reject(err) : resolve({ rows: ctx.rows.length }));
});
