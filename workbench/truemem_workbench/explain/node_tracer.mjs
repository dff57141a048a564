// The handler of the run that explains a Node.js function: the user's own handler, and after some invocations a heap
// snapshot. Then the lines are seen after which something watched has grown.
//
// It runs in the function's own process: Node's standard library alone. A line is seen through a breakpoint whose
// condition notes it and is false, so that nothing ever pauses (Chrome DevTools Protocol, Debugger.setBreakpoint).

import { createHook } from "node:async_hooks";
import fs from "node:fs";
import path from "node:path";
import { pathToFileURL } from "node:url";
import { types } from "node:util";
import v8 from "node:v8";

import { fileOf, isLibrary, libraries, places, post, ROOT, scripts } from "./node_inspector.mjs";
import { here, Watched } from "./node_watched.mjs";

const FOLDER = process.env.TRUEMEM_EXPLAIN;
const PLANNED = process.env.TRUEMEM_EXPLAIN_LOOKS.split(",").map(Number); // invocations before a snapshot
const EVERY_S = Number(process.env.TRUEMEM_EXPLAIN_SECONDS) / (PLANNED.length + 1); // or this much time, if that is less
const MOST_PLACES = 20_000; // breakpoints
const MOST_STEPS = 50_000; // in one invocation: a step takes some 10 µs
const HOOK = "__truemem_explain";

const missing = new Set();
const began = performance.now();
let count = 0;
let looks = 0;
let watchedSince = 0; // the look after which truemem has said what to watch
const watched = new Map(); // by id and variable
let open = []; // those that are watched now
const handleKinds = new Set(); // those that are held by nothing in the code, and become more
const handles = new Map(); // by async id: kind and stack, as JSON
let watchesPromises = false; // is a promise watched now?
let waiting = []; // in this invocation, what waits for a promise: the promise's async id, and the stack
let steps = 0;
let last = null; // where the latest step was
let wanted = []; // what truemem has said to watch
let inLibraries = true; // are the libraries' scripts watched that hold something?
const lastIn = new Map(); // the same by function

const write = (name, value) => {
  const file = path.join(FOLDER, name);
  fs.writeFileSync(`${file}.new`, JSON.stringify(value));
  fs.renameSync(`${file}.new`, file); // a file that is there is whole
};

const told = () =>
  write(`watched-${process.pid}.json`, {
    missing: [...missing],
    scripts: Object.fromEntries([...scripts, ...libraries]),
    handles: opened(),
    grewAt: [...watched.values()].map(({ id, variable, stacks }) => ({
      id,
      variable,
      stacks: [...stacks].map(([stack, number]) => [JSON.parse(stack), number]),
    })),
  });

const look = () => {
  looks += 1;
  const file = path.join(FOLDER, `heap-${process.pid}-${count}.json`);
  // Not the inspector's takeHeapSnapshot: from Node.js 23 on it writes when the handler has returned.
  v8.writeHeapSnapshot(`${file}.new`);
  post("Debugger.enable"); // tells of each script
  post("Debugger.disable");
  told();
  fs.renameSync(`${file}.new`, file);
};

// Where the handles were made that are still open, such as sockets: [kind, stack, number].
const opened = () => {
  const counts = new Map();
  for (const key of handles.values()) counts.set(key, (counts.get(key) ?? 0) + 1);
  return [...counts].map(([key, number]) => [...JSON.parse(key), number]);
};

const hook = createHook({
  init(id, type, trigger, resource) {
    if (type === "PROMISE") {
      if (watchesPromises) waiting.push([trigger, frames(here())]);
      return;
    }
    const kind = resource.constructor?.name;
    if (!handleKinds.has(kind)) return;
    const stack = frames(here());
    if (stack.length > 0) handles.set(id, JSON.stringify([kind, stack]));
  },
  destroy: (id) => handles.delete(id),
});

// Where it was said in this invocation that something waits for this promise: what `then` makes is triggered by it.
const waitingFor = (promise) => {
  if (!types.isPromise(promise)) return [];
  const symbol = Object.getOwnPropertySymbols(promise).find(({ description }) => description === "async_id_symbol");
  return waiting.filter(([id, stack]) => id === promise[symbol] && stack.length > 0).map(([, stack]) => stack);
};

// Find an object by its id in the heap snapshot.
const hold = (each, id) => {
  try {
    const { objectId } = post("HeapProfiler.getObjectByHeapObjectId", { objectId: String(id) }).result;
    globalThis[HOOK].hold = (object) => Object.assign(each, { object: new WeakRef(object) });
    post("Runtime.callFunctionOn", { objectId, functionDeclaration: `function () { globalThis.${HOOK}.hold(this); }` });
    post("Runtime.releaseObject", { objectId }); // the inspector's own handle would keep it
  } catch {
    // an object of V8's own, or one that is gone: its growth has no line
  }
};

// What the inspector knows of a function, and `use` makes of it.
const inspected = (closure, use) => {
  globalThis[HOOK].closure = closure;
  try {
    const { objectId } = post("Runtime.evaluate", { expression: `globalThis.${HOOK}.closure`, objectGroup: HOOK }).result;
    const { internalProperties } = post("Runtime.getProperties", { objectId, ownProperties: true });
    return use((name) => internalProperties.find((each) => each.name === name).value);
  } finally {
    post("Runtime.releaseObjectGroup", { objectGroup: HOOK });
    globalThis[HOOK].closure = globalThis[HOOK].scopes = null;
  }
};

// The value at this moment. A variable's is read in the scopes of a function that sees it.
const valueOf = ({ object, variable }) => {
  const held = object.deref();
  if (!variable || held === undefined) return held;
  return inspected(held, (property) => {
    const functionDeclaration = `function () { globalThis.${HOOK}.scopes = this; }`;
    post("Runtime.callFunctionOn", { objectId: property("[[Scopes]]").objectId, functionDeclaration });
    const scopes = Array.from(globalThis[HOOK].scopes, (each) => each.object);
    return scopes.find((scope) => Object.hasOwn(scope, variable))?.[variable];
  });
};

// Watch what truemem has found to grow: objects, and variables, which a function that is told sees.
const watch = () => {
  globalThis[HOOK] = { step };
  post("Debugger.enable");
  for (const { id, variable, closure } of wanted) {
    const key = `${id} ${variable}`;
    if (watched.has(key)) continue;
    const each = new Watched(id, variable);
    watched.set(key, each);
    hold(each, variable ? closure : id);
    if (variable && each.object) {
      each.script = inspected(each.object.deref(), (property) => property("[[FunctionLocation]]").value.scriptId);
    }
  }
  if (looks === PLANNED.length) for (const each of watched.values()) each.again();
  open = [...watched.values()].filter((each) => each.isOpen);
  if (open.length === 0) return unwatch();
  watchesPromises = open.some(({ object }) => types.isPromise(object.deref()));
  if (watchesPromises) hook.enable();
  for (const each of open) each.begin(valueOf(each));
  const homes = inLibraries ? wanted.map(({ home }) => home).filter((id) => libraries.has(id)) : [];
  const found = places(new Set(homes));
  if (found.length > MOST_PLACES) missing.add("The code is large: lines were seen in a part of it alone.");
  for (const [number, location] of found.slice(0, MOST_PLACES)) {
    const values = open.map(({ variable, script }, at) =>
      variable && script === location.scriptId ? `${at}: () => ${variable}, ` : "",
    );
    const condition = `globalThis.${HOOK}.step(${number}, {${values.join("")}})`;
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
  for (const each of open) each.forget();
  open = [];
  watchesPromises = false;
};

// Note what has grown since this function's step before, and where that was. Always false.
const step = (number, values) => {
  try {
    steps += 1;
    if (steps > MOST_STEPS) return false;
    const stack = () => frames(lastIn.get(number) ?? last);
    open.forEach((each, at) => {
      if (!each.isOpen) return;
      if (!each.variable) each.see(0, each.object.deref(), stack);
      else if (values[at]) seeVariable(each, number, values[at], stack);
    });
    last = here();
    lastIn.set(number, last);
  } catch (error) {
    failed(error);
  }
  return false;
};

const seeVariable = (each, number, read, stack) => {
  let value;
  try {
    value = read();
  } catch {
    return; // not visible from here, or not yet
  }
  each.see(number, value, stack);
};

const failed = (error) => missing.add(`Lines were seen in a part of the code alone, because of this: ${error}`);

// The frames of the user's and the innermost one, innermost last: [file, line, column, function].
const frames = (error) =>
  (Array.isArray(error?.stack) ? error.stack : [])
    .map((site) => [fileOf(site.getFileName() ?? ""), site.getLineNumber(), site.getColumnNumber(), site.getFunctionName() ?? ""])
    .filter(([file]) => file)
    .filter(([file], at) => at === 0 || !isLibrary(file))
    .reverse();

// The invocation before is over.
const ended = () => {
  if (!globalThis[HOOK]) return;
  for (const each of open) if (each.isOpen) each.end(valueOf(each), waitingFor(each.object.deref()));
  waiting = [];
  told();
  if (steps > MOST_STEPS && inLibraries && libraries.size > 0) {
    inLibraries = false; // they may be the ones
    unwatch();
    watch();
  } else if (steps > MOST_STEPS) {
    missing.add("An invocation has too many steps: lines were seen in a part of it alone.");
    for (const each of open) each.close();
  }
  if (!open.some((each) => each.isOpen)) unwatch();
};

const before = () => {
  last = null;
  lastIn.clear();
  const late = performance.now() - began >= EVERY_S * 1000 * (looks + 1);
  if (looks < PLANNED.length && count > 0 && (late || count >= PLANNED[looks])) {
    unwatch();
    look();
  }
  const said = path.join(FOLDER, `watch-${process.pid}-${looks}.json`);
  if (watchedSince < looks && fs.existsSync(said)) {
    watchedSince = looks;
    unwatch();
    wanted = JSON.parse(fs.readFileSync(said, "utf8"));
    for (const { handles: kind } of wanted) if (kind) handleKinds.add(kind);
    if (handleKinds.size > 0) hook.enable();
    watch();
  }
  steps = 0;
};

// Node.js 24, after a heap snapshot: a function that is made anew for each call goes on in its baseline code, which knows
// no breakpoint.
v8.setFlagsFromString("--no-sparkplug");
post("Profiler.enable");
post("Profiler.startPreciseCoverage", { callCount: true, detailed: false });

process.env._HANDLER = process.env.TRUEMEM_EXPLAIN_HANDLER;
const [, folder, module, name] = /^(.*\/)?([^./]+)\.(.+)$/.exec(process.env._HANDLER);
const file = [".js", ".mjs", ".cjs"].map((each) => path.resolve(ROOT, folder ?? "", module + each)).find(fs.existsSync);
const namespace = await import(pathToFileURL(file));
const find = (whole) => name.split(".").reduce((part, key) => part?.[key], whole);
const user = find(namespace) ?? find(namespace.default);

export function handler(...given) {
  for (const work of [ended, before]) {
    try {
      work();
    } catch (error) {
      failed(error);
    }
  }
  count += 1;
  return user.apply(this, given);
}
// the runtime reads the number of arguments, and the symbols of a streaming handler
Object.defineProperties(handler, Object.getOwnPropertyDescriptors(user));
