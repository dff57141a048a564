// What web.py does, in Node.js (--expose-gc): hold, spike, keep, release.
"use strict";
const fs = require("node:fs");
const http = require("node:http");

const kept = [];
// Page by page: what stat says is counted in batches, and may be wrong by half a MiB (proc(5)).
const rss = () => Number(/Rss: +(\d+)/.exec(fs.readFileSync("/proc/self/smaps_rollup", "latin1"))[1]);

async function touched({ does, mib, ms }) {
  const before = rss();
  let block = Buffer.alloc(does === "release" ? 0 : Math.round(mib * 2 ** 20), 1);
  const held = rss();
  const end = performance.now() + ms;
  while (performance.now() < end);
  if (does === "keep") kept.push(block);
  for (let freed = 0; does === "release" && kept.length && freed < mib * 2 ** 20; ) freed += kept.pop().length;
  block = null;
  global.gc();
  await new Promise((done) => setTimeout(done, 5)); // V8 frees buffers in a thread of its own
  const truth = Math.max(before, held, rss()); // a collection takes memory too
  return { before, truth, touched: truth - before };
}

http
  .createServer(async (request, response) => {
    const query = new URL(request.url, "http://localhost").searchParams;
    const number = (name) => Number(query.get(name) ?? 0);
    const event = { does: query.get("do"), mib: number("mib"), ms: number("ms") };
    response.setHeader("content-type", "application/json");
    response.end(JSON.stringify(event.does ? await touched(event) : {}));
  })
  .listen(process.env.PORT, "127.0.0.1");
