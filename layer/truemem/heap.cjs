// Adds the heap of Node.js to truemem's line, without a change of code: NODE_OPTIONS="--require /opt/truemem/heap.cjs"
//
// When the runtime's client answers an invocation, it takes a reading and writes it into a page that truemem reads
// (docs/heap.md). It does nothing outside Lambda, in a worker thread of the function's, and under a client that it does
// not know. On Managed Instances worker threads serve: their heaps together are the reading. It has no timer and keeps
// no process alive. Its errors do not reach the function. For Node.js 18 or newer.
"use strict";

// Taken now: the function or another preload may put others in their place.
const { closeSync, constants, existsSync, fstatSync, ftruncateSync, lstatSync } = require("fs");
const { openSync, opendirSync, readdirSync, readFileSync, realpathSync, renameSync, statSync } = require("fs");
const { unlinkSync, writeSync } = require("fs");
const { compileFunction, createContext, runInNewContext } = require("vm");
const { now } = Date;
const { cpuUsage, hrtime } = process;
const { bigint } = hrtime;
const { iterator } = Symbol;
const iterate = Array.prototype[iterator];
const prototypes = [Object.prototype, Function.prototype, Array.prototype, String.prototype, RegExp.prototype];
const { apply } = Reflect;
const { from } = Buffer;

const SLOT = 256; // bytes for each reading, by turns: truemem may look for one after later ones were written. The first slot is for the head
const V8_THREADS = 7; // the main one, 4 workers and one for what is delayed of V8's, and the inspector's
const WORKERS = 256; // whose heaps are added up; AWS's client starts 8 for each vCPU
const FIGURES = ["used", "committed", "external", "metaspace", "collections", "gcMs", "live"]; // of each of them
const TIDIED = 1000; // entries of the folder that are searched for pages of processes that have ended
const REQUEST = /^\/2018-06-01\/runtime\/invocation\/(?:next$|([^/]+)\/(?:response|error)$)/;

const api = process.env.AWS_LAMBDA_RUNTIME_API;
const atOnce = process.env.AWS_LAMBDA_MAX_CONCURRENCY; // on Managed Instances
const PAGE = atOnce ? 65536 : 4096;
const memorySize = process.env.AWS_LAMBDA_FUNCTION_MEMORY_SIZE; // MiB
const tmp = process.env.TMPDIR || "";
const folder = tmp.startsWith("/tmp/") && !tmp.includes("..") ? tmp.replace(/\/+$/, "") : "/tmp";

// Settled, the heap has no garbage: then it is known what is kept. `off`: never. Path of a file, in a run on a
// developer's machine: after the next answer each time that the file has changed; what is kept then goes into the file
// of that name with `.said` at its end. Else after 64 answers, then after twice as many, and so on.
const settle = (process.env.TRUEMEM_SETTLE || "").trim();
const asked = settle.startsWith("/") ? settle : "";
let settleNext = settle.toLowerCase() === "off" || atOnce ? Infinity : 64;
const SETTLED_SHARE = 50; // if it takes one part in this many of the CPU time
const SPARE = 10; // and this many times as long is left until the timeout
const VCPU_MIB = 1769; // with a smaller memory size it takes as many times longer
const COLLECTED_MS = 2; // for each MiB of the heap, before it was done once
let collectGarbage = globalThis.gc; // V8's own function: Lambda starts Node.js with --expose-gc
let answers = 0;
let answered; // id of an invocation whose answer is sent, if the heap is to be settled then
let deadline = 0; // of the invocation that has come, epoch ms
let changed = 0;
let freed = 0; // bytes, by all collections that were asked for
let spentMs = 0;
let costMs = 0;

// With `--lines` truemem asks for a profile by a file (lines.cjs), once in a process.
let lines = process.env.TRUEMEM_LINES;
if (lines === "off") lines = "";
const root = process.env.LAMBDA_TASK_ROOT || "/var/task";
const [, script] = process.argv; // the runtime's client
const LOOKED_FOR = { throwIfNoEntry: false };
const EACH = 8; // after so many invocations it is looked for: a look takes 10 µs
let waited = 0; // invocations since then
let profile; // is called between an answer and the request for the next invocation

let v8; // loaded when the client is known: then this process is the runtime
let head = ""; // where truemem may read V8's stack, from outside, when memory runs out
let path = "";
let descriptor = -1;
let identity; // of the page's file
let number = 0;
let live; // bytes; unknown before the first major collection
let collections; // major ones; unknown if they cannot be observed
let gcMs = 0;
let observer;
let shared; // on Managed Instances, by all threads: figures of each, then how many there are, and readings
let place; // of this thread's figures

function quietly(run) {
  return function (...given) {
    try {
      return apply(run, this, given);
    } catch {
      return undefined; // the process is the function's: nothing of ours may end it
    }
  };
}

const begin = quietly(() => {
  if (v8) return;
  v8 = require("v8");
  const { PerformanceObserver, constants: kinds } = require("perf_hooks");
  const count = quietly((list) => {
    let major = 0;
    for (const { detail, duration } of list.getEntries()) {
      gcMs += duration;
      if (detail.kind === kinds.NODE_PERFORMANCE_GC_MAJOR) major += 1;
    }
    collections += major;
    // It is called when the code that was interrupted has returned. What that has made since is still among the young.
    if (major) live = inSpaces((name) => !name.startsWith("new_"));
  });
  observer = new PerformanceObserver(count);
  observer.observe({ type: "gc" });
  collections = 0;
  leaveOptions();
  if (asked) delete process.env.TRUEMEM_SETTLE;
  open(); // the first invocation may be the last
});

// Node.js iterates over arrays when it calls an observer: where the function has broken that, the next collection would
// end the process.
const unobserved = quietly(() => {
  if (!observer || Array.prototype[iterator] === iterate) return;
  observer.disconnect();
  observer = collections = live = undefined;
});

// The function and its children see NODE_OPTIONS as it would be without us.
function leaveOptions() {
  const own = __filename.replace(/[^\w/]/g, "\\$&");
  const ours = new RegExp(`(^|\\s+)(?:--require|-r)(?:\\s+|=)"?${own}"?(?=\\s|$)`, "g");
  const others = (process.env.NODE_OPTIONS || "").replace(ours, "").trim();
  if (others) process.env.NODE_OPTIONS = others;
  else delete process.env.NODE_OPTIONS;
}

function inSpaces(wanted) {
  let bytes = 0;
  for (const space of v8.getHeapSpaceStatistics()) if (wanted(space.space_name)) bytes += space.space_used_size;
  return bytes;
}

const kib = (bytes) => Math.round(bytes / 1024);

const note = quietly((id) => {
  begin();
  unobserved();
  if (isDue()) answered = id;
  else put(id, {});
});

const put = quietly((id, settled) => {
  const heap = v8.getHeapStatistics(); // not process.memoryUsage(): that reads a file as well, for RSS
  number += 1;
  let figures = {
    used: kib(heap.used_heap_size),
    committed: kib(heap.total_heap_size),
    limit: kib(heap.heap_size_limit),
    external: kib(heap.external_memory), // buffers are in it
    metaspace: kib(inSpaces((name) => /code|trusted/.test(name))), // since Node.js 22 bytecode is in it
  };
  if (collections !== undefined) figures = { ...figures, collections, gcMs: Math.round(gcMs) };
  if (live !== undefined) figures.live = kib(live);
  if (shared) figures = together(figures);
  if (!figures) return;
  figures = { ...figures, ...settled };
  let text = `truemem-heap-3 ${number} ${id} ${now()} nodejs`;
  for (const name in figures) text += ` ${name}=${figures[name]}`;
  text += ` ${number}\n`;
  if (!/^[!-~]+$/.test(id) || text.length > SLOT) return;
  open();
  writeSync(descriptor, text, SLOT + ((number * SLOT) % (PAGE - SLOT)), "latin1");
});

// The sums of all threads that serve. What is live in one that had no major collection is at most what it uses. None has
// a limit of its own: memory ends first.
function together({ limit, ...own }) {
  const [all, counts] = shared;
  place ??= Atomics.add(counts, 0, 1);
  number = Atomics.add(counts, 1, 1) + 1;
  if (place >= WORKERS) return undefined;
  own.live ??= own.used;
  FIGURES.forEach((name, at) => (all[place * FIGURES.length + at] = own[name] ?? 0));
  const sums = Object.fromEntries(FIGURES.map((name) => [name, 0]));
  for (let at = 0; at < Math.min(counts[0], WORKERS) * FIGURES.length; at += 1)
    sums[FIGURES[at % FIGURES.length]] += all[at];
  if (!sums.collections) delete sums.live;
  return sums;
}

function isDue() {
  if (asked) {
    const before = changed;
    changed = statSync(asked, LOOKED_FOR)?.mtimeMs ?? changed; // it is not there before it is asked first
    return changed !== before;
  }
  answers += 1;
  if (answers < settleNext) return false;
  const { user, system } = apply(cpuUsage, process, []);
  const cost = costMs || (COLLECTED_MS * v8.getHeapStatistics().used_heap_size) / 2 ** 20;
  return deadline - now() > SPARE * cost * Math.max(1, VCPU_MIB / (memorySize || VCPU_MIB)) && (spentMs + cost) * SETTLED_SHARE < (user + system) / 1000;
}

// Between an answer and the request for the next invocation.
const settleHeap = quietly(() => {
  if (!answered) return;
  const id = answered;
  answered = undefined;
  const began = apply(bigint, hrtime, []);
  while (settleNext <= answers) settleNext *= 2;
  if (!collectGarbage) {
    v8.setFlagsFromString("--expose-gc");
    collectGarbage = runInNewContext("gc");
    v8.setFlagsFromString("--no-expose-gc");
  }
  const before = v8.getHeapStatistics();
  collectGarbage();
  collectGarbage(); // Buffers go only with the second
  const heap = v8.getHeapStatistics();
  freed += Math.max(0, before.used_heap_size + before.external_memory - heap.used_heap_size - heap.external_memory);
  if (collections !== undefined) collections += 1; // the observer is called later, and counts it again: a count is only ever compared
  live = inSpaces((name) => !name.startsWith("new_"));
  if (asked) tell(heap);
  costMs = Math.max(costMs, Number(apply(bigint, hrtime, []) - began) / 1e6);
  spentMs += costMs;
  put(id, { kept: kib(heap.used_heap_size + heap.external_memory), garbage: kib(freed) });
});

function tell(heap) {
  const said = {
    asked: parseInt(readFileSync(asked, "latin1"), 10),
    heap: heap.used_heap_size / 1024,
    external: heap.external_memory / 1024,
    garbage: freed / 1024,
    caches: bounded(heap.used_heap_size + heap.external_memory),
  };
  const own = shared ? `.${require("worker_threads").threadId}` : ""; // each thread its own
  const file = openSync(`${asked}.said${own}`, constants.O_WRONLY | constants.O_CREAT | constants.O_TRUNC);
  writeSync(file, JSON.stringify(said));
  closeSync(file);
}

let findCaches;
const bounded = quietly((bytes) => {
  const { Session } = require("inspector");
  findCaches ??= loaded("local/caches.cjs")({ Session, host: globalThis, functions: prototypes[1] });
  return findCaches(bytes);
});

function open() {
  const about = opened();
  if (about) {
    if (about.nlink) return;
    closeSync(descriptor); // /tmp was emptied
  }
  if (!path) quietly(tidy)();
  descriptor = -1;
  path = `${folder}/.truemem-heap-${process.pid}`;
  const { O_WRONLY, O_CREAT, O_EXCL, O_NOFOLLOW } = constants;
  if (shared && Atomics.exchange(shared[1], 2, 1)) {
    quietly(() => (descriptor = openSync(path, O_WRONLY | O_NOFOLLOW)))(); // another thread has made it
    if (descriptor >= 0) {
      identity = fstatSync(descriptor);
      return;
    }
  }
  quietly(unlinkSync)(path); // of an earlier process with this pid; a link is not followed
  const made = openSync(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0o600);
  try {
    ftruncateSync(made, PAGE);
    writeSync(made, head, 0);
    identity = fstatSync(made);
  } catch (error) {
    closeSync(made);
    throw error;
  }
  descriptor = made;
}

// State of the opened file. Undefined if it was never opened, or if the function has closed its descriptor.
const opened = quietly(() => {
  if (descriptor < 0) return undefined;
  const about = fstatSync(descriptor);
  return about.ino === identity.ino && about.dev === identity.dev ? about : undefined;
});

// Version of V8, the threads that are V8's, the folder of the function's code. Of the threads, those that are there now:
// libuv's come with the first work for them. What takes memory in a collection is one of V8's. Not where many requests
// run at once, and only for x86-64: the return of V8's interpreter is known by its code.
function describe() {
  if (atOnce || process.arch !== "x64" || root.includes("\n")) return;
  const threads = readdirSync("/proc/self/task");
  const [, version] = /^(\d+\.\d+)\./.exec(process.versions.v8);
  head = `truemem-stacks-node-1 ${version} ${threads.length > V8_THREADS ? process.pid : threads.join(",")} ${root}\n`;
  if (Buffer.byteLength(head) > SLOT) head = "";
}

// Removes pages of processes that have ended: /tmp outlives them, and is small.
function tidy() {
  const entries = opendirSync(folder);
  try {
    for (let left = TIDIED, entry; left && (entry = entries.readSync()); left -= 1) {
      const page = /^\.truemem-heap-(\d+)$/.exec(entry.name);
      if (page && !existsSync(`/proc/${page[1]}`)) unlinkSync(`${folder}/${entry.name}`);
    }
  } finally {
    entries.closeSync();
  }
}

const between = quietly(() => {
  settleHeap();
  if (!lines) return;
  if (!profile) {
    waited = (waited + 1) % EACH;
    if (waited || !lstatSync(`${folder}/.truemem-lines-${process.pid}`, LOOKED_FOR)) return;
  }
  lines = ""; // an error ends it
  profile = profile || loadedProfile();
  if (profile()) lines = "on";
  else profile = () => {};
});

// In a context with built-ins that the function has not touched.
function loaded(name, parsingContext = createContext()) {
  const filename = `${__dirname}/${name}`;
  const module = {};
  const text = readFileSync(filename, "utf8");
  const load = (other) => loaded(other, parsingContext);
  compileFunction(text, ["module", "require"], { filename, parsingContext })(module, load);
  return module.exports;
}

function loadedProfile() {
  begin();
  const fs = { closeSync, constants, fstatSync, lstatSync, openSync, readFileSync, renameSync, unlinkSync, writeSync };
  const clocks = { cpu: () => apply(cpuUsage, process, []), wall: () => apply(bigint, hrtime, []) };
  const inspector = require("inspector");
  const promises = quietly(require)("inspector/promises"); // not in Node.js 18
  const counts = !process.env.NODE_V8_COVERAGE;
  const base64 = (text) => apply(from, Buffer, [text, "base64"]).toString();
  const given = { fs, inspector, promises, v8, clocks, prototypes, pid: process.pid, folder, root, memorySize, counts, base64 };
  return loaded("lines.cjs")({ ...given, client: quietly(realpathSync)(script) });
}

const { then } = Promise.prototype;
const took = quietly(({ headers }) => (deadline = Number(headers["lambda-runtime-deadline-ms"]) || 0));
const come = quietly((coming) => apply(then, coming, [took, () => {}]));

// AWS's client (aws-lambda-ric, and the one of Lambda's runtimes) answers through an addon, rapid-client.node: its
// functions done(id, body) and error(id, body, xray) send.
function hookAddon() {
  const load = process.dlopen;
  const loading = function (module) {
    const loaded = apply(load, this, arguments); // not spread: that calls Array's iterator, which may be the function's
    found(module);
    return loaded;
  };
  const found = quietly(({ exports: client }) => {
    if (!["next", "done", "error"].every((name) => typeof client[name] === "function")) return;
    begin();
    if (process.dlopen === loading) process.dlopen = load;
    const { next } = client;
    client.next = function () {
      between();
      const coming = apply(next, this, arguments);
      come(coming);
      return coming;
    };
    for (const name of ["done", "error"]) {
      const send = client[name];
      client[name] = function (id) {
        noteEncoded(id);
        return apply(send, this, arguments);
      };
    }
  });
  process.dlopen = loading;
}

// Its streamed answers, and other clients, go through http or fetch, which tell of each request on a channel.
function hookRequests() {
  const { subscribe } = require("diagnostics_channel");
  const seen = quietly(({ request }) => {
    const match = REQUEST.exec(request.path);
    if (!match) return;
    const host = request.origin ? String(request.origin).slice("http://".length) : request.getHeader("host");
    if (host !== api) return;
    if (match[1]) noteEncoded(match[1]);
    else {
      begin();
      between();
    }
  });
  subscribe("http.client.request.start", seen); // all of it has been handed over
  const answer = quietly(({ request, response }) => {
    if (request.getHeader("host") === api) took(response);
  });
  subscribe("http.client.response.finish", answer);
  subscribe("undici:request:create", seen);
}

const noteEncoded = quietly((id) => note(decodeURIComponent(id)));

quietly(() => {
  if (!api) return;
  const { isMainThread, getEnvironmentData, setEnvironmentData } = require("worker_threads");
  const key = "truemem-heap";
  if (isMainThread && atOnce)
    setEnvironmentData(key, [
      new Float64Array(new SharedArrayBuffer(8 * WORKERS * FIGURES.length)),
      new Int32Array(new SharedArrayBuffer(4 * 3)),
    ]);
  if (!isMainThread && !(shared = getEnvironmentData(key))) return;
  hookAddon();
  hookRequests();
  quietly(describe)();
})();
