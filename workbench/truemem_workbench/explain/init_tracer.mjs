// The handler of a run that tells what init holds: it logs where each module and each statement of the handler's file
// begins and ends, as init_tracer.py does, in the same lines. Node.js 18 and newer.

import fs from "node:fs";
import { Session } from "node:inspector";
import Module, { createRequire, isBuiltin } from "node:module";
import path from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import v8 from "node:v8";
import vm from "node:vm";

const FOLDER = process.env.TRUEMEM_EXPLAIN;
const STEP_KIB = Number(process.env.TRUEMEM_INIT_STEP_KIB); // 0: a run that takes the time alone
const HOOK = "__truemem_at__";
const ROOT = fs.realpathSync(process.env.LAMBDA_TASK_ROOT);
const NO_STATEMENT = /^(?:[\s})\]/*;`]|import\b(?!\s*\()|export\s*[{*]|export\s+default\s+(?:async\s+)?function|(?:export\s+)?(?:async\s+)?function\b|$)/;

const log = fs.openSync(path.join(FOLDER, `init-${process.pid}.log`), "w");
const smaps = "/proc/self/smaps_rollup";
const buffer = Buffer.alloc(4096);
const statm = fs.openSync("/proc/self/statm", "r");
const status = fs.openSync("/proc/self/status", "r");
const bytesOf = (file) => buffer.toString("latin1", 0, fs.readSync(file, buffer, 0, buffer.length, 0));
const rssNow = () => Number(bytesOf(statm).split(" ")[1]) * 4;
// Without what V8's heap holds free: it comes and goes with each collection, whatever is loaded.
const heldOf = (rss) => {
  const { total_physical_size: physical, used_heap_size: used } = v8.getHeapStatistics();
  return rss - Math.round((physical - used) / 1024);
};
const member = (text, name) => Number(text.match(new RegExp(`${name}:\\s+(\\d+)`))?.[1] ?? 0);
v8.setFlagsFromString("--expose-gc");
const gc = vm.runInNewContext("gc");

let lines = "";
let lost = 0n;
let settled = 0;

const write = (kind, text = "") => {
  const now = process.hrtime.bigint();
  const rss = STEP_KIB ? heldOf(rssNow()) : 0;
  const peak = STEP_KIB ? member(bytesOf(status), "VmHWM") : 0;
  lines += `${kind}\t${now - lost}\t${rss}\t${peak}\t${text}\n`;
  if (STEP_KIB && Math.abs(rss - settled) >= STEP_KIB) settle();
  if (lines.length > 32_768) flush();
  lost += process.hrtime.bigint() - now;
};

const flush = () => {
  fs.writeSync(log, lines);
  lines = "";
};

const settle = () => {
  for (let time = 0; time < 2; time += 1) gc({ type: "major", execution: "sync", flavor: "last-resort" }); // the first frees late
  const said = fs.readFileSync(smaps, "latin1");
  const rss = member(said, "Rss");
  settled = heldOf(rss);
  lines += `s\t0\t${settled}\t${member(said, "Anonymous")}\t\nr\t0\t${settled}\t0\t\nh\t0\t${rss}\t0\t\n`;
};

const end = (kind) => {
  write(kind);
  for (const { id, children } of Object.values(Module._cache)) {
    for (const child of STEP_KIB ? children : []) lines += `=\t0\t0\t0\t${id}\t${child.id}\n`;
  }
  if (STEP_KIB) settle();
  flush();
};

let open = 0; // modules that are evaluated now
const evaluated = (name, work) => {
  write("(", name);
  open += 1;
  try {
    return work();
  } finally {
    open -= 1;
    write(")", isBuiltin(name) ? "" : name);
  }
};

// CommonJS: what is loaded the first time. Builtin modules too: some are loaded when they are asked for.
const { load: loadFile } = Module.prototype;
Module.prototype.load = function (filename) {
  if (filename === file) return loadFile.call(this, filename);
  return evaluated(filename, () => loadFile.call(this, filename));
};
const builtins = new Set();
const { _load: load } = Module;
Module._load = function (request, ...rest) {
  const name = request.replace(/^(?:node:)?/, "node:");
  if (!isBuiltin(request) || builtins.has(name)) return load.call(this, request, ...rest);
  builtins.add(name);
  return evaluated(name, () => load.call(this, request, ...rest));
};

// ES modules, from Node.js 22.15 on: all are read first; then what they import is evaluated before them, one by one.
globalThis[HOOK] = (kind, text) => {
  write(kind, text);
  return false;
};
const asFile = (url) => (url?.startsWith("file:") ? fileURLToPath(url) : (url ?? ""));
const mark = (kind, name) => `globalThis[${JSON.stringify(HOOK)}](${JSON.stringify(kind)},${JSON.stringify(name)});`;
Module.registerHooks?.({
  resolve(specifier, context, next) {
    const found = next(specifier, context);
    lines += `=\t0\t0\t0\t${asFile(context.parentURL)}\t${asFile(found.url)}\n`;
    return found;
  },
  load(url, context, next) {
    const name = asFile(url);
    if (open === 0) write("l", name);
    const found = next(url, context);
    if (found.format !== "module" || name === file || found.source == null) return found;
    const source = typeof found.source === "string" ? found.source : Buffer.from(found.source).toString();
    if (source.startsWith("#!")) return found;
    return { ...found, source: `${mark("(", name)}${source}\n;${mark(")", name)}` };
  },
});

// The statements of the handler's file, by breakpoints whose condition is never true.
const session = new Session();
const watchStatements = () => {
  session.connect();
  const post = (method, parameters) => session.post(method, parameters, () => {});
  post("Debugger.enable");
  fs.readFileSync(file, "utf8").split("\n").forEach((text, lineNumber) => {
    if (NO_STATEMENT.test(text)) return;
    const kind = /\b(?:require|import)\s*\(/.test(text) ? "i" : "@";
    const condition = `globalThis.${HOOK}(${JSON.stringify(kind)},${JSON.stringify(`${file}:${lineNumber + 1}`)})`;
    post("Debugger.setBreakpointByUrl", { lineNumber, columnNumber: 0, url: String(pathToFileURL(file)), condition });
  });
};

process.env._HANDLER = process.env.TRUEMEM_EXPLAIN_HANDLER;
const [, folder, module, name] = /^(.*\/)?([^./]+)\.(.+)$/.exec(process.env._HANDLER);
const file = [".js", ".mjs", ".cjs"].map((each) => path.resolve(ROOT, folder ?? "", module + each)).find(fs.existsSync);

const required = () => {
  try {
    return createRequire(file)(file);
  } catch (error) {
    if (error.code === "ERR_REQUIRE_ESM" || error.code === "ERR_REQUIRE_ASYNC_MODULE" || error instanceof SyntaxError) return null;
    throw error;
  }
};

// V8's compilers come into memory with the first code that is hot: no module is to have them, so it is ours.
const warmUp = (steps) => {
  let sum = 0;
  for (let step = 0; step < steps; step += 1) sum += step % 7;
  return sum;
};
for (let time = 0; STEP_KIB && time < 500; time += 1) warmUp(10_000);

const before = STEP_KIB ? heldOf(rssNow()) : 0;
watchStatements();
if (STEP_KIB) {
  settle();
  lines += `o\t0\t${Math.max(0, settled - before)}\t0\t\n`;
}
write("S");
write("(", file);
const namespace = (file.endsWith(".mjs") ? null : required()) ?? (await import(pathToFileURL(file)));
write(")", file);
session.disconnect();
if (!Module.registerHooks && !(file in Module._cache)) {
  lines += "!\t0\t0\t0\tES modules are told apart from Node.js 22.15 on: before, they count for the handler's file.\n";
}
end("E");
const find = (whole) => name.split(".").reduce((part, key) => part?.[key], whole);
const user = find(namespace) ?? find(namespace.default);
let begun = false;

export function handler(...given) {
  if (begun) return user.apply(this, given);
  begun = true;
  write("F");
  const answer = user.apply(this, given);
  if (typeof answer?.then === "function") return answer.finally(() => end("L"));
  end("L");
  return answer;
}
// the runtime reads the number of arguments, and the symbols of a streaming handler
Object.defineProperties(handler, Object.getOwnPropertyDescriptors(user));
