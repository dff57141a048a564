// A handler in Node.js that allocates as it is asked to: {"do": what, "mib": how much}. It knows nothing of the probe.
const { spawnSync } = require("node:child_process");
const fs = require("node:fs");

const kept = [];
const cache = new Map();
let calls = 0;

const OBJECT = 128; // bytes, about, of one of these in V8's heap
const objects = (mib) => Array.from({ length: (mib * 2 ** 20) / OBJECT }, (_, n) => ({ n, name: `object ${n} ${calls}` }));
const probes = () => fs.readdirSync(process.env.TMPDIR).filter((name) => name.startsWith(".truemem-heap-"));
const pause = () => new Promise((resolve) => setTimeout(resolve, 5));

const actions = {
  nothing: () => undefined,
  leak: (mib) => void kept.push(objects(mib)),
  garbage: (mib) => objects(mib).length,
  // Made to run as code that is compiled: what is not called stays source text.
  code: (mib) => {
    for (let n = 0; n < mib * 200; n += 1) {
      const made = new Function("a", `let s = ${calls}; for (let i = 0; i < a; i++) { s += i * ${n} } return s`);
      made(20_000);
      kept.push(made);
    }
  },
  buffers: (mib) => void kept.push(Buffer.alloc(mib * 2 ** 20, 1)),
  // 20 entries at most
  cache: (mib) => {
    cache.set(calls, objects(mib));
    if (cache.size > 20) cache.delete(cache.keys().next().value);
  },
  collect: async () => {
    globalThis.gc();
    await pause();
  },
  fail: () => {
    throw new RangeError("as asked");
  },
  // What the function sees of it, and a child of it.
  look: () => {
    const child = spawnSync(process.execPath, ["-p", "JSON.stringify([process.env.NODE_OPTIONS, Object.keys(require.cache)])"]);
    return { options: process.env.NODE_OPTIONS ?? null, child: String(child.stdout), error: String(child.stderr), probes: probes() };
  },
  empty: () => probes().map((name) => fs.unlinkSync(`${process.env.TMPDIR}/${name}`)).length,
  // Close each descriptor of a page, and open something else in its place.
  close: () => {
    for (const name of fs.readdirSync("/proc/self/fd")) {
      let target = "";
      try {
        target = fs.readlinkSync(`/proc/self/fd/${name}`);
      } catch {}
      if (!target.includes(".truemem-heap-")) continue;
      fs.closeSync(Number(name));
      if (fs.openSync(`${process.env.TMPDIR}/victim`, "w+") !== Number(name)) throw new Error("another descriptor");
    }
  },
  victim: () => fs.statSync(`${process.env.TMPDIR}/victim`).size,
  reject: () => void Promise.reject(new Error("nobody handles it")),
};

exports.handler = async (event) => {
  calls += 1;
  return { answer: (await actions[event.do](event.mib ?? 0)) ?? null };
};
