// Names the lines that keep more memory with each invocation, for some invocations: `--lines`. Loaded by heap.cjs
// when truemem asks, in a context of its own: the function may have broken the language's own objects.
//
// V8's sampling heap profiler gives the live objects by call tree. Exact: file, function, and the size within the
// error of sampling. V8 has no line of an allocation: it is deduced from the source of functions that ran
// (keeping_line.cjs). A source map says where that is in TypeScript (maps.cjs).
//
// Works between an answer and the request for the next invocation, so no caller waits. No timer, no debugger.
"use strict";

const keepingLines = require("./keeping_line.cjs");
const { code, locate } = require("./maps.cjs");

const BASELINE = 6; // invocations before the profile, to compare its CPU with
const LEAST_CPU_US = 1000; // an invocation counts as this at least: less is noise
const FIRST = 4; // invocations of a coarse profile, which says how much is allocated
const FIRST_INTERVAL = 128 * 1024; // bytes
const MARKER = 128 * 1024; // elements
const WINDOWS = 5; // between looks. Each look is a full collection
const LEAST = 3; // invocations of a window
const AIM = 0.4; // of the permitted CPU is what the interval is chosen for
const SAMPLE_US = 5; // of CPU for a sample (measured: 3 to 6)
const SAMPLE_BYTES = 300; // in the profiler, and a while as JSON
const NODE_BYTES = 700;
const YOUNG = 32 * 1024 * 1024; // garbage that may wait for its collection, with its samples
const FINEST = 512; // bytes: interval. Code that only allocates takes up to 20 times as long then, 50 times at 256
const COARSEST = 256 * 1024;
const HARMLESS = 4096; // from which on no code takes more than three times as long
const BURST_US = 50_000; // more CPU of one invocation: then the profile is coarser
const SLOW_LOOK_MS = 1000; // the function's timeout goes on
const MS_PER_MIB = 1; // of a look, where the memory size buys a whole vCPU (measured: 0.5)
const LEAST_KIB = 0.2; // of an invocation. Runtime clients keep as much
const OTHERS_KIB = 4; // the same, where no line on the stack is the user's, but AWS's client's
const LEAST_SHARE = 0.05; // of what the first line keeps
const CERTAIN_KIB = 4; // of an invocation: hardly noise
const NOISE_KIB = 8; // V8 drops and makes code of 100 KiB between two looks
const SUPPORT = 0.3; // of what lines keep must be seen in the heap as well: else it is in a full cache
const SUPPORT_ALL = 0.7; // the same, below which what is put into caches does not count
const LINES = 10;
const FRAMES = 20;
const ANSWER_BYTES = 16384;
const SOURCE_PART = 3; // of the memory that is permitted: a file is read as bytes and as text
const MAP_PART = 2; // the same of a source map, which is read when the profile has ended: it takes 3 to 7 times its size
const TEXT = 250; // characters of a name or a path
const EXTERNAL = /^(?:Uint8Array|FastBuffer|alloc\w*|from\w*|createUnsafeBuffer|\w+ArrayBuffer|ArrayBuffer|\w+\d+Array|DataView)$/;

const median = (values, half = 1) => [...values].sort((a, b) => a - b)[values.length >> half];

// What an invocation adds from look to look, in most of the steps: a cache is full some time, and V8 drops code.
const rising = (looks, name) =>
  Math.max(0, median(looks.slice(1).map((each, i) => (each[name] - looks[i][name]) / (each.at - looks[i].at))));

// Returns `next`, which is called before each request for an invocation, and returns whether there is more to do.
module.exports = (given) => {
  const host = hostOf(given);
  const path = `${host.folder}/.truemem-lines-${host.pid}`;
  const asked = /^truemem-lines-1 (\d{1,5}) (\d{1,5}) (\d{1,9})\n$/.exec(host.readAsk(path) || "");
  if (!asked) return () => false;
  const [invocations, cpuLimit, memoryLimit] = [asked[1], asked[2], asked[3]].map(Number);

  const before = []; // CPU of each invocation, µs
  let during = [];
  let session;
  let interval = FIRST_INTERVAL;
  let profiled = 0; // invocations, the coarse profile's as well
  let coarse = true;
  let counts = host.counts; // which functions run
  let isCounted = false; // since the session began
  let warming = 0; // invocations until code is optimized again: a count drops it
  let ran = []; // functions that ran, as file and end, in each part of the profile
  let looks = []; // of the profile that runs: { at, ordinal, live, external }
  let nextLook = FIRST;
  let step = 0;
  let allLooks = 0;
  let lookMs = 0;
  let memoryKiB = 0;
  let cpu;
  let handler; // the user's function that the runtime's client calls
  let isAlone = true; // no other heap profile was begun

  function next() {
    if (!isAlone) return gaveUp("heap profiler is in use");
    if (!host.isThere(path)) return ended(); // withdrawn: memory is near the limit, or the environment ends
    const used = host.cpuUs() - cpu;
    const more = cpu === undefined || worked(used);
    cpu = host.cpuUs();
    return more;
  }

  function worked(used) {
    if (!session) {
      before.push(used);
      return before.length < BASELINE || begun();
    }
    profiled += 1;
    if (warming) warming -= 1;
    else during.push(used);
    if (overCpu() || (isBurst(used) && warming < BASELINE - 1)) return tooMuch("cpu");
    if (profiled < nextLook) return true;
    if (host.replaced()) return gaveUp("built-ins are replaced");
    const profile = look();
    if (!profile) return ended(); // another has stopped it
    if (memoryKiB > memoryLimit) return tooMuch("memory");
    if (looks[looks.length - 1].ms > SLOW_LOOK_MS) return gaveUp("looks");
    if (coarse) return refined();
    if (looks.length <= WINDOWS) {
      if (looks.length === WINDOWS) {
        counted();
        count();
      }
      nextLook += step;
      return true;
    }
    counted();
    ended();
    return answered("", grown(profile));
  }

  function begun() {
    if (host.replaced()) return gaveUp("built-ins are replaced");
    if (host.inspected()) return gaveUp("inspector is in use");
    if ((host.heapMiB() * MS_PER_MIB) / host.cpuShare > SLOW_LOOK_MS) return gaveUp("looks");
    session = host.session(interrupted);
    if (post("HeapProfiler.getSamplingProfile")) return gaveUp("heap profiler is in use");
    return started();
  }

  function interrupted() {
    isAlone = false;
    ended();
  }

  function started() {
    post("HeapProfiler.startSampling", { samplingInterval: interval });
    during = [];
    looks = [];
    return true;
  }

  // Ordinals count all samples, of garbage too: they tell how much is allocated. The last is the marker's.
  function refined() {
    const [{ ordinal }] = looks;
    const allocated = (Math.max(ordinal - 1, 0.25) * interval) / FIRST;
    coarse = false;
    step = Math.max(LEAST, Math.floor((invocations - profiled) / WINDOWS));
    const samples = (AIM * cpuLimit * usual()) / 100 / SAMPLE_US; // of an invocation, that may be taken
    const pending = Math.min(allocated * step, YOUNG);
    const wanted = Math.max(allocated / Math.max(samples, 1), (pending * SAMPLE_BYTES) / (memoryLimit * 1024));
    return restarted(Math.round(Math.min(Math.max(wanted, FINEST), COARSEST)));
  }

  function restarted(bytes) {
    interval = bytes;
    disconnect(); // ends the profile, without the collection that stopSampling begins with
    session = host.session(interrupted);
    const last = looks[looks.length - 1];
    ran = [];
    count();
    started();
    if (last.at === profiled) looks.push({ ...last, ordinal: 0 });
    else look();
    nextLook = profiled + step;
    return true;
  }

  // Once more without the count, for what is slow without inlining; then with an eighth of the samples.
  function tooMuch(why) {
    const times = counts && overCpu() ? 1 : 8;
    step = Math.floor((invocations - profiled) / WINDOWS);
    if (coarse || (times > 1 && interval >= COARSEST) || step < LEAST) return gaveUp(why);
    if (times === 1) counts = false;
    memoryKiB = 0;
    return restarted(Math.min(interval * times, COARSEST));
  }

  // V8 inlines no function that is yet to be counted: stacks are complete. Counted twice: what ran once is not what grows.
  function count() {
    if (!counts) return;
    isCounted = true;
    warming = BASELINE;
    post("Profiler.enable");
    post("Profiler.startPreciseCoverage");
  }

  function counted() {
    const found = new Set();
    const { result } = post("Profiler.takePreciseCoverage") || { result: [] };
    for (let i = 0; i < result.length; i += 1) {
      const { url, functions } = result[i];
      const file = host.relative(url) || host.path(url);
      for (let j = 0; j < functions.length; j += 1) {
        const { endOffset, count } = functions[j].ranges[0];
        if (count) found.add(`${file}:${endOffset}`);
      }
    }
    ran.push(found);
    post("Profiler.stopPreciseCoverage");
  }

  const hasRun = (file, end) => ran.length > 1 && ran.every((each) => each.has(`${file}:${end}`));

  // Optimized code has nothing inlined after a count: V8 drops it where calls are to be counted.
  function disconnect() {
    if (isCounted) {
      post("Profiler.startPreciseCoverage", { callCount: true });
      post("Profiler.stopPreciseCoverage");
    }
    isCounted = false;
    host.disconnect(session);
  }

  const usual = () => Math.max(median(before), LEAST_CPU_US);
  const cpuPercent = () => (during.length && before.length ? (median(during) / usual() - 1) * 100 : 0);
  // A request that allocates much more than others costs as many samples, and that is known when it is over.
  const isBurst = (used) => interval < HARMLESS && used > usual() * (1 + cpuLimit / 100) + BURST_US;
  // The lower quartile: on a busy machine some take twice as much anyway.
  const overCpu = () => during.length >= BASELINE && median(during, 2) > usual() * (1 + cpuLimit / 100);

  function post(method, given) {
    let result;
    session.post(method, given, (error, value) => {
      if (!error) result = value;
    });
    return result;
  }

  function look() {
    const [wall, used] = [host.wallMs(), host.cpuUs()];
    // A profile has samples of what is alive alone: this is one for certain.
    const marker = coarse ? new Array(MARKER).fill(0) : undefined;
    const found = post("HeapProfiler.getSamplingProfile"); // all garbage is collected first
    if (marker) marker[0] = 1; // it is alive until here
    const profile = found && found.profile;
    if (!profile || !profile.samples) return undefined;
    const { samples } = profile;
    let ordinal = looks.length ? looks[looks.length - 1].ordinal : 0;
    for (let i = 0; i < samples.length; i += 1) ordinal = Math.max(ordinal, samples[i].ordinal);
    const ms = Math.min(host.wallMs() - wall, (host.cpuUs() - used) / 1000); // not the time of a freeze, nor threads'
    looks.push({ at: profiled, ordinal, live: host.live(), external: host.external(), ms });
    allLooks += 1;
    lookMs += ms;
    const nodes = visited(profile.head, [], (id, frames) => {
      const first = frames.findIndex(({ callFrame }) => host.relative(callFrame.url) !== undefined);
      if (first > 0 && host.isClient(frames[first - 1].callFrame.url)) handler = frames[first];
    });
    memoryKiB = Math.max(memoryKiB, (samples.length * SAMPLE_BYTES + nodes * NODE_BYTES) / 1024);
    return profile;
  }

  // What is still there of each window, by the innermost function that is the user's.
  function grown(profile) {
    const chains = new Map(); // node's number: its frames, the user's and the innermost one
    visited(profile.head, [], (id, frames) => chains.set(id, frames));
    const groups = new Map();
    for (let i = 0; i < profile.samples.length; i += 1) {
      const { nodeId, size, ordinal } = profile.samples[i];
      const chain = chainOf(chains.get(nodeId));
      const window = looks.findIndex((each) => ordinal <= each.ordinal) - 1;
      if (!chain || window < 0) continue;
      const key = chain.key;
      if (!groups.has(key)) groups.set(key, { frames: chain.frames, windows: new Float64Array(WINDOWS), callees: new Map(), external: 0 });
      const group = groups.get(key);
      group.windows[window] += size;
      if (window === WINDOWS - 1) continue;
      if (EXTERNAL.test(chain.leaf)) group.external += 1;
      for (const name of chain.callees.length ? chain.callees : [""]) group.callees.set(name, (group.callees.get(name) || 0) + size);
    }
    const growth = { live: rising(looks, "live"), outside: rising(looks, "external") };
    let found = steady([...groups.values()], 0);
    // There may be too few samples of the small objects that hold much: a Buffer, a stream's chunk.
    const all = growth.live + growth.outside;
    if (!found.length && all > CERTAIN_KIB * 1024)
      found = steady([...groups.values()], 1).filter((each) => each.bytes * SUPPORT_ALL < all);
    return summed(found, growth);
  }

  // The user's frames, or the innermost one of a library. V8 may inline a hot handler into the client that calls it.
  function chainOf(given) {
    if (!given || !given.length) return undefined;
    let users = [];
    const inner = given.reduce((last, { callFrame }, i) => (callFrame.url ? i : last), 0);
    const isClients = host.isClient(given[inner].callFrame.url);
    if (isClients && !handler) return undefined;
    const frames = isClients ? [handler, ...given.slice(inner + 1)] : given;
    let last = -1;
    for (let i = 0; i < frames.length; i += 1) {
      const { url, functionName, lineNumber, columnNumber } = frames[i].callFrame;
      const file = host.relative(url);
      const library = file === undefined && host.isLibrary(url);
      if (file === undefined && !(library && users.length)) continue;
      last = i;
      const at = { file: library ? host.path(url) : file, name: functionName, line: lineNumber, column: columnNumber, library };
      if (!users.length || !sameFunction(users[users.length - 1], at)) users.push(at);
    }
    if (!users.length) {
      const of = [...frames].reverse().find(({ callFrame }) => host.isLibrary(callFrame.url));
      if (!of) return undefined;
      const { functionName, url, lineNumber, columnNumber } = of.callFrame;
      users = [{ file: host.path(url), name: functionName, line: lineNumber, column: columnNumber, library: true }];
    }
    const callees = frames.slice(last + 1).map((each) => each.callFrame.functionName);
    // Of libraries' frames one after the other, the two innermost.
    const near = users.filter((each, i) => !each.library || !(users[i + 1] || {}).library || !(users[i + 2] || {}).library);
    const key = near.map(({ file, line, column }) => `${file}:${line}:${column}`).join(" ");
    return { key, frames: near, callees: callees.slice(0, 4), leaf: callees[callees.length - 1] || "" };
  }

  // Growth by innermost function. An unsteady function's objects go to its caller, which may be steady with them.
  function steady(groups, empty) {
    const found = [];
    let left = groups.map((each) => ({ ...each, users: each.frames.filter((frame) => !frame.library) }));
    for (const each of left) if (!each.users.length) each.users = each.frames.slice(-1);
    const keyed = ({ file, line, column }) => `${file}:${line}:${column}`;
    for (let up = 0; up < FRAMES && left.length; up += 1) {
      const callers = new Map();
      for (const each of left) {
        const key = keyed(each.users[Math.max(0, each.users.length - 1 - up)]);
        if (!callers.has(key)) callers.set(key, []);
        callers.get(key).push(each);
      }
      left = [];
      for (const each of callers.values()) {
        const bytes = rate(each, empty);
        if (bytes > 0) found.push({ bytes, groups: each });
        else left.push(...each);
      }
      if (!left.some((each) => each.users.length > up + 1)) break;
    }
    return found;
  }

  // Bytes that an invocation adds; 0 if they do not come in each window, but so many that may be `empty`: a bounded cache
  // keeps in some only. The last window has what is garbage soon.
  function rate(groups, empty) {
    const windows = new Float64Array(WINDOWS);
    for (const each of groups) for (let i = 0; i < WINDOWS; i += 1) windows[i] += each.windows[i];
    const [first, second] = [...windows].sort((a, b) => a - b).slice(empty);
    if (!(first > 0)) return 0;
    const earlier = windows.subarray(0, WINDOWS - 1);
    const mean = earlier.reduce((sum, each) => sum + each, 0) / earlier.length;
    const even = Math.max(...earlier) <= 3 * first + 4 * interval;
    return (even ? mean : (first + second) / 2) / step;
  }

  function summed(found, { live, outside }) {
    const growth = live + outside;
    const inside = found.reduce((sum, each) => sum + each.bytes, 0);
    share(found, outside);
    let placed = keepingLines(found, (file) => code(read(file)), hasRun, memoryLimit).map((place, i) => ({ ...place, bytes: found[i].bytes }));
    for (const each of placed) each.isUsers = each.stack.some(({ file }) => !/^(?:\/|node:)/.test(file));
    const kept = placed.filter((each) => !each.emptied);
    if (inside < NOISE_KIB * 1024) placed = kept; // too little to be seen in the heap
    else if (growth < SUPPORT * inside) placed = [];
    else if (growth < SUPPORT_ALL * inside) placed = kept;
    locate(placed.flatMap((each) => [each, ...each.stack]), read, { base64: host.base64, read: (path) => host.readSource(path, (memoryLimit * 1024) / MAP_PART) }, host.below);
    const lines = new Map();
    for (const { file, line, column, name, isKnown, isUsers, stack, bytes } of placed) {
      const key = `${file}:${line}:${column}`;
      const called = isKnown ? name : `${name} (line unknown)`;
      const one = lines.get(key) || { file, line, column, isUsers, function: called, bytes: 0, stack, most: 0 };
      one.bytes += bytes;
      if (bytes > one.most) Object.assign(one, { most: bytes, stack, function: called });
      lines.set(key, one);
    }
    const sorted = [...lines.values()].sort((a, b) => b.bytes - a.bytes);
    const least = Math.max(LEAST_KIB * 1024, sorted.length ? LEAST_SHARE * sorted[0].bytes : 0);
    const isMuch = (each) => each.bytes >= (each.isUsers ? least : Math.max(least, OTHERS_KIB * 1024));
    const named = sorted.filter(isMuch).slice(0, LINES);
    const sum = named.reduce((total, each) => total + each.bytes, 0);
    const all = Math.max(growth, sum);
    const kib = (bytes) => Math.round(bytes / 10.24) / 100;
    return {
      lines: named.map((each) => ({
        file: printable(each.file),
        line: each.line,
        ...(each.column && { column: each.column }),
        function: printable(each.function),
        perInvocationKiB: kib(each.bytes),
        share: Math.round((each.bytes / all) * 1000) / 1000,
        stack: each.stack.slice(-FRAMES).map(({ file, line, column, name }) => printable(`${file}:${line}${column ? `:${column}` : ""} ${name}`)),
      })),
      restKiB: kib(Math.max(0, growth - sum)),
    };
  }

  const read = (file) => host.readSource(file, (memoryLimit * 1024) / SOURCE_PART);

  // Buffers' bytes, outside of the heap, go to the functions that make buffers; if V8 does not say which, to all.
  function share(found, outside) {
    if (outside < LEAST_KIB * 1024 || !found.length) return;
    const weights = found.map(({ groups }) => groups.reduce((sum, each) => sum + each.external, 0));
    const some = weights.some((each) => each > 0);
    const sum = found.reduce((total, each, i) => total + (some ? weights[i] : each.bytes), 0);
    found.forEach((each, i) => (each.bytes += (outside * (some ? weights[i] : each.bytes)) / sum));
  }

  function gaveUp(why) {
    ended();
    return answered(why, { lines: [], restKiB: 0 });
  }

  function answered(why, { lines, restKiB }) {
    const answer = {
      runtime: "nodejs",
      invocations: profiled,
      looks: allLooks,
      cpuPercent: Math.round(Math.max(0, cpuPercent()) * 10) / 10,
      memoryKiB: Math.round(memoryKiB),
      lookMs: Math.round(lookMs),
      gaveUp: why,
      lines,
      restKiB,
    };
    let text = JSON.stringify(answer);
    while (host.size(text) > ANSWER_BYTES && lines.length) {
      lines.pop();
      text = JSON.stringify(answer);
    }
    host.write(`${path}.json`, text);
    return false;
  }

  function ended() {
    if (session) disconnect();
    session = undefined;
    return false;
  }

  return () => {
    try {
      return next();
    } catch {
      return ended();
    }
  };
};

const printable = (text) => text.slice(-TEXT).replace(/[^\x20-\x7e\u00a1-\ud7ff]/g, "?");
const sameFunction = (a, b) => a.file === b.file && a.line === b.line && a.column === b.column;

// Calls `see` with each node's number and frames, and returns how many there are. The arrays' methods may be broken.
function visited(node, above, see) {
  const frames = node.callFrame.functionName === "(root)" ? above : [...above, node];
  see(node.id, frames);
  let number = 1;
  for (let i = 0; i < node.children.length; i += 1) number += visited(node.children[i], frames, see);
  return number;
}

// The few things of Node.js that are needed, from what heap.cjs took before the function ran.
function hostOf({ fs, inspector, promises, v8, clocks, prototypes, pid, folder, root, client, memorySize, counts, base64 }) {
  const { O_RDONLY, O_WRONLY, O_CREAT, O_EXCL, O_NOFOLLOW, O_NONBLOCK } = fs.constants;
  const once = { throwIfNoEntry: false };

  // Text of a regular file, undefined if there is none or it is larger.
  function read(path, most, flags) {
    let descriptor;
    try {
      descriptor = fs.openSync(path, O_RDONLY | O_NONBLOCK | flags);
      const about = fs.fstatSync(descriptor);
      return about.isFile() && about.size <= most ? fs.readFileSync(descriptor, "utf8") : undefined;
    } catch {
      return undefined;
    } finally {
      if (descriptor !== undefined) fs.closeSync(descriptor);
    }
  }

  const path = (url) => {
    if (!url.startsWith("file://")) return url;
    try {
      return decodeURIComponent(url.slice("file://".length).replace(/[?#].*$/, ""));
    } catch {
      return url;
    }
  };
  const below = `${root.replace(/\/+$/, "")}/`;
  const sessions = [inspector, promises].filter(Boolean).map(({ Session }) => [Session.prototype, "post"]);
  const profilers = v8.startHeapProfile ? [...sessions, [v8, "startHeapProfile"]] : sessions; // from Node.js 26 on
  const restores = []; // of what session() has replaced
  const files = new Map(); // url: what relative() says
  return {
    folder,
    pid,
    below,
    path,
    base64,
    isClient: (url) => path(url) === client && !client.startsWith(below), // the process's own script
    isThere: (file) => fs.lstatSync(file, once) !== undefined,
    readAsk: (file) => read(file, 200, O_NOFOLLOW),
    readSource: (file, most) => read(file.startsWith("/") ? file : below + file, most, 0),
    cpuUs() {
      const { user, system } = clocks.cpu();
      return user + system;
    },
    wallMs: () => Number(clocks.wall()) / 1e6,
    // After a full collection the young spaces hold only what this module has made since.
    live() {
      let bytes = 0;
      const spaces = v8.getHeapSpaceStatistics();
      for (let i = 0; i < spaces.length; i += 1) if (!spaces[i].space_name.startsWith("new_")) bytes += spaces[i].space_used_size;
      return bytes;
    },
    external: () => v8.getHeapStatistics().external_memory,
    heapMiB: () => v8.getHeapStatistics().used_heap_size / 2 ** 20,
    counts,
    cpuShare: Math.min(1, Number(memorySize) / 1769 || 1),
    // Has the function replaced built-ins? Node.js calls those, and an error there would be seen.
    replaced() {
      const originals = [Object.prototype, Function.prototype, Array.prototype, String.prototype, RegExp.prototype];
      const native = ({ value, get }) => {
        const method = value === undefined ? get : value;
        return typeof method !== "function" || /\[native code\]/.test(Function.prototype.toString.call(method));
      };
      return originals.some((original, i) =>
        Reflect.ownKeys(original).some((name) => {
          const about = Reflect.getOwnPropertyDescriptor(prototypes[i], name);
          return !about || !native(about);
        }),
      ) || "toJSON" in prototypes[0];
    },
    inspected: () => inspector.url() !== undefined,
    // V8 has one sampler, and one count, for all sessions: ours end before others begin. What an addon begins, or an
    // imported v8.startHeapProfile, is not seen.
    session(otherBegins) {
      const session = new inspector.Session();
      session.connect();
      for (const [owner, name] of profilers) {
        const own = owner[name];
        const wrapped = function (method) {
          const begins = name !== "post" || /^(?:HeapProfiler.startSampling|Profiler.startPreciseCoverage)$/.test(method);
          try {
            if (begins && this !== session) otherBegins();
          } catch {
            // the call is the function's
          }
          return Reflect.apply(own, this, arguments);
        };
        owner[name] = wrapped;
        restores.push(() => owner[name] === wrapped && (owner[name] = own));
      }
      return session;
    },
    disconnect(session) {
      for (const restore of restores.splice(0)) restore();
      session.disconnect();
    },
    // Of the user's files below the task root; undefined for others.
    relative(url) {
      if (!files.has(url)) {
        const file = path(url);
        files.set(url, file.startsWith(below) && !file.includes("/node_modules/") ? file.slice(below.length) : undefined);
      }
      return files.get(url);
    },
    isLibrary: (url) => path(url).includes("/node_modules/") || (path(url).startsWith("/opt/") && !path(url).startsWith("/opt/truemem/")),
    size: (text) => encodeURIComponent(text.toWellFormed ? text.toWellFormed() : text).replace(/%../g, "x").length,
    write(file, text) {
      const part = `${file}.new`;
      const remove = () => {
        try {
          fs.unlinkSync(part);
        } catch {
          // it was not there
        }
      };
      remove();
      const descriptor = fs.openSync(part, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0o600);
      try {
        if (fs.writeSync(descriptor, text) === this.size(text)) fs.renameSync(part, file); // else the disk is full
      } finally {
        fs.closeSync(descriptor);
        remove();
      }
    },
  };
}
