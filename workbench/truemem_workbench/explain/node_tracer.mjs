// The handler of the run that explains a Node.js function: the user's own handler, and after some invocations a heap
// snapshot. Then the lines are seen after which something watched has grown.
//
// It runs in the function's own process: Node's standard library alone. A line is seen through a breakpoint whose
// condition notes it and is false, so that nothing ever pauses (Chrome DevTools Protocol, Debugger.setBreakpoint).

import fs from "node:fs";
import { Session } from "node:inspector";
import path from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { types } from "node:util";

const FOLDER = process.env.TRUEMEM_EXPLAIN;
const AT = new Set(process.env.TRUEMEM_EXPLAIN_LOOKS.split(",").map(Number)); // invocations before a snapshot
const ROOT = path.join(fs.realpathSync(process.env.LAMBDA_TASK_ROOT), path.sep);
const ENOUGH = 3; // times that something was seen to grow, after which it is not watched any more
const MOST_WATCHED = 20; // invocations: what only some of them keep needs more than one
const MOST_PLACES = 20_000; // breakpoints
const MOST_STEPS = 50_000; // in one invocation: a step takes some 10 µs
const MOST_MEMBERS = 50; // members of an object that are compared
const HOOK = "__truemem_explain";

const session = new Session();
session.connect();
const scripts = new Map(); // file of the user's by the script's id
const missing = new Set();
let count = 0;
let looks = 0;
let left = 0; // invocations that are still watched
let watchedSince = 0; // the look after which truemem has said what to watch
const watched = new Map(); // by id and variable: what is watched, with the stacks where it grew
let steps = 0;
let last = null; // the line that ran: {error}, for its stack

const post = (method, parameters) => {
  let answer;
  session.post(method, parameters, (error, result) => {
    if (error) throw new Error(`${method}: ${error.message}`);
    answer = result;
  });
  return answer;
};

const write = (name, value) => {
  const file = path.join(FOLDER, name);
  fs.writeFileSync(`${file}.new`, JSON.stringify(value));
  fs.renameSync(`${file}.new`, file); // a file that is there is whole
};

const told = () =>
  write(`watched-${process.pid}.json`, {
    missing: [...missing],
    scripts: Object.fromEntries(scripts),
    grewAt: [...watched.values()].map(({ id, variable, stacks }) => ({
      id,
      variable,
      stacks: [...stacks].map(([stack, number]) => [JSON.parse(stack), number]),
    })),
  });

const fileOf = (url) => {
  const file = url.startsWith("file:") ? fileURLToPath(url) : url;
  return file.startsWith(ROOT) && !file.includes(`${path.sep}node_modules${path.sep}`) ? file : null;
};

session.on("Debugger.scriptParsed", ({ params }) => {
  const file = fileOf(params.url);
  if (file) scripts.set(params.scriptId, file);
});

const look = () => {
  looks += 1;
  const name = `heap-${process.pid}-${count}.json`;
  const file = fs.openSync(path.join(FOLDER, `${name}.new`), "w");
  const chunk = ({ params }) => fs.writeSync(file, params.chunk);
  session.on("HeapProfiler.addHeapSnapshotChunk", chunk);
  post("HeapProfiler.takeHeapSnapshot", { reportProgress: false });
  session.off("HeapProfiler.addHeapSnapshotChunk", chunk);
  fs.closeSync(file);
  post("Debugger.enable"); // tells of each script
  post("Debugger.disable");
  told();
  fs.renameSync(path.join(FOLDER, `${name}.new`), path.join(FOLDER, name));
};

// How much a value has: a number, or the identities of what it refers to. No code of the user's runs.
const size = (value) => {
  if (typeof value === "string") return value.length;
  if ((typeof value !== "object" && typeof value !== "function") || value === null || types.isProxy(value)) return 0;
  if (Array.isArray(value)) return value.length;
  if (types.isMap(value)) return Object.getOwnPropertyDescriptor(Map.prototype, "size").get.call(value);
  if (types.isSet(value)) return Object.getOwnPropertyDescriptor(Set.prototype, "size").get.call(value);
  const names = Reflect.ownKeys(value);
  return [names.length, ...names.slice(-MOST_MEMBERS).map((name) => Object.getOwnPropertyDescriptor(value, name)?.value)];
};

const grown = (before, now) =>
  Array.isArray(now)
    ? !Array.isArray(before) || now.length > before.length || now.some((each, at) => each !== before[at] && each)
    : Array.isArray(before) || now > before;

// The places of the user's code that ran. The module's own code runs once, and is not among them.
const places = () => {
  const found = [];
  for (const { scriptId, functions } of post("Profiler.takePreciseCoverage").result) {
    if (!scripts.has(scriptId)) continue;
    const { scriptSource } = post("Debugger.getScriptSource", { scriptId });
    const begins = [0];
    for (let at = scriptSource.indexOf("\n"); at >= 0; at = scriptSource.indexOf("\n", at + 1)) begins.push(at + 1);
    const place = (offset) => {
      let low = 0;
      for (let high = begins.length; high - low > 1; ) {
        const middle = (low + high) >> 1;
        if (begins[middle] <= offset) low = middle;
        else high = middle;
      }
      return { scriptId, lineNumber: low, columnNumber: offset - begins[low] };
    };
    for (const { ranges } of functions) {
      const [{ startOffset, endOffset, count: ran }] = ranges;
      if (!ran || startOffset === 0) continue;
      const range = { start: place(startOffset), end: place(endOffset), restrictToFunction: true };
      found.push(...post("Debugger.getPossibleBreakpoints", range).locations);
    }
  }
  return found;
};

// Watch what truemem has found to grow: an object by its id in the heap snapshot, or a variable by its name.
const watch = (wanted) => {
  unwatch();
  globalThis[HOOK] = { step, hold: (key, object) => Object.assign(watched.get(key), { object: new WeakRef(object) }) };
  for (const { id, variable } of wanted) {
    const key = `${id} ${variable}`;
    if (watched.has(key)) continue;
    watched.set(key, { id, variable, counts: 0, stacks: new Map() });
    if (variable) continue;
    try {
      const { objectId } = post("HeapProfiler.getObjectByHeapObjectId", { objectId: String(id) }).result;
      const hold = `function () { globalThis.${HOOK}.hold(${JSON.stringify(key)}, this); }`;
      post("Runtime.callFunctionOn", { objectId, functionDeclaration: hold });
      post("Runtime.releaseObject", { objectId }); // the inspector's own handle would keep it
    } catch {
      // an object of V8's own: its growth has no line
    }
  }
  const names = [...new Set(wanted.map(({ variable }) => variable).filter(Boolean))];
  const values = names.map((name) => `${JSON.stringify(name)}: () => ${name}`).join(", ");
  post("Debugger.enable");
  const found = places();
  if (found.length > MOST_PLACES) missing.add("The code is large: lines were seen in a part of it alone.");
  for (const location of found.slice(0, MOST_PLACES)) {
    const condition = `globalThis.${HOOK}.step({${values}})`;
    try {
      post("Debugger.setBreakpoint", { location, condition });
    } catch {
      // two places may resolve to one breakpoint
    }
  }
};

const unwatch = () => {
  if (globalThis[HOOK] === undefined) return;
  post("Debugger.disable");
  delete globalThis[HOOK];
};

const sizeOf = (each, values) => {
  if (!each.variable) return size(each.object?.deref());
  try {
    const value = values[each.variable]();
    return typeof value === "object" && value !== null ? [value, size(value)].flat() : size(value);
  } catch {
    return null; // not visible from here
  }
};

// Note what has grown since the step before, and where that was. Always false.
const step = (values) => {
  try {
    steps += 1;
    if (steps > MOST_STEPS) return false;
    for (const each of watched.values()) {
      const now = sizeOf(each, values);
      if (now === null) continue;
      if (last && each.size !== undefined && grown(each.size, now)) {
        const stack = JSON.stringify(frames(last));
        each.counts += 1;
        each.stacks.set(stack, (each.stacks.get(stack) ?? 0) + 1);
      }
      each.size = now;
    }
    const most = Error.stackTraceLimit;
    Error.stackTraceLimit = 30;
    last = new Error();
    Error.stackTraceLimit = most;
  } catch (error) {
    missing.add(String(error));
  }
  return false;
};

// The frames of the user's, innermost last: [file, line].
const frames = (error) => {
  const own = Error.prepareStackTrace;
  Error.prepareStackTrace = (_, sites) => sites;
  try {
    const sites = error.stack;
    const user = Array.isArray(sites) ? sites.map((site) => [fileOf(site.getFileName() ?? ""), site.getLineNumber()]) : [];
    return user.filter(([file]) => file).reverse();
  } finally {
    Error.prepareStackTrace = own;
  }
};

const before = () => {
  if (globalThis[HOOK]) {
    told();
    if (steps > MOST_STEPS) missing.add("An invocation has too many steps: lines were seen in a part of it alone.");
    left -= 1;
    if (left === 0 || steps > MOST_STEPS || [...watched.values()].every(({ counts }) => counts >= ENOUGH)) unwatch();
  }
  last = null;
  for (const each of watched.values()) each.size = undefined; // else a snapshot would have what we hold
  if (AT.has(count)) look();
  const wanted = path.join(FOLDER, `watch-${process.pid}-${looks}.json`);
  if (watchedSince < looks && fs.existsSync(wanted)) {
    watchedSince = looks;
    left = MOST_WATCHED;
    watch(JSON.parse(fs.readFileSync(wanted, "utf8")));
  }
  steps = 0;
  if (globalThis[HOOK]) for (const each of watched.values()) each.size = each.variable ? undefined : sizeOf(each);
  count += 1;
};

post("Profiler.enable");
post("Profiler.startPreciseCoverage", { callCount: true, detailed: false });

process.env._HANDLER = process.env.TRUEMEM_EXPLAIN_HANDLER;
const [, folder, module, name] = /^(.*\/)?([^./]+)\.(.+)$/.exec(process.env._HANDLER);
const file = [".js", ".mjs", ".cjs"].map((each) => path.resolve(ROOT, folder ?? "", module + each)).find(fs.existsSync);
const namespace = await import(pathToFileURL(file));
const find = (whole) => name.split(".").reduce((part, key) => part?.[key], whole);
const user = find(namespace) ?? find(namespace.default);

export function handler(...given) {
  try {
    before();
  } catch (error) {
    missing.add(String(error));
  }
  return user.apply(this, given);
}
// the runtime reads the number of arguments, and the symbols of a streaming handler
Object.defineProperties(handler, Object.getOwnPropertyDescriptors(user));
