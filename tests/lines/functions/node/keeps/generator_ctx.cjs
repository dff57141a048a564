const sessions = Object.create(null);
function* rows(n) { for (let i = 0; i < 200; i++) yield { i, n, s: `row ${i}` }; }
async function collect(n) { const out = []; for (const r of rows(n)) out.push(r); return out; }
exports.handler = async (event, ctx) => {
  const list = await collect(event.n);
  const first = list[0];
  sessions[ctx.awsRequestId] ??= { list, first }; // leak
  return first.i;
};
