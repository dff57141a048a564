// V8's inspector (Chrome DevTools Protocol), and the places of the user's code that it knows.

import fs from "node:fs";
import { Session } from "node:inspector";
import path from "node:path";
import { fileURLToPath } from "node:url";

export const ROOT = path.join(fs.realpathSync(process.env.LAMBDA_TASK_ROOT), path.sep);

const FOREIGN = new RegExp(`^(?:${process.env.TRUEMEM_EXPLAIN_FOREIGN})`); // what follows ROOT in the files of others
const PACKAGES = `${path.sep}node_modules${path.sep}`;
const CLIENTS = process.argv[1].slice(0, process.argv[1].lastIndexOf(PACKAGES) + PACKAGES.length); // the runtime's own

export const session = new Session();
session.connect();
export const scripts = new Map(); // file of the user's by the script's id
export const libraries = new Map(); // the same of those in node_modules

export const post = (method, parameters) => {
  let answer;
  session.post(method, parameters, (error, result) => {
    if (error) throw new Error(`${method}: ${error.message}`);
    answer = result;
  });
  return answer;
};

// Packages may be in a folder above the function's. An environment of Python's, with us in it, may be below it.
export const fileOf = (url) => {
  const file = url.startsWith("file:") ? fileURLToPath(url) : url;
  if (file.startsWith(ROOT) && FOREIGN.test(file.slice(ROOT.length))) return null;
  return file.startsWith(ROOT) || (isLibrary(file) && !(CLIENTS.endsWith(PACKAGES) && file.startsWith(CLIENTS))) ? file : null;
};

export const isLibrary = (file) => file.includes(PACKAGES);

session.on("Debugger.scriptParsed", ({ params }) => {
  const file = fileOf(params.url);
  if (file) (isLibrary(file) ? libraries : scripts).set(params.scriptId, file);
});

// The places of the user's code that ran, and of `others`, ids of scripts; each with a number of its function. The
// module's own code runs once, and is not among them.
export const places = (others) => {
  const found = [];
  let number = 0;
  for (const { scriptId, functions } of post("Profiler.takePreciseCoverage").result) {
    if (!scripts.has(scriptId) && !others.has(scriptId)) continue;
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
      const end = place(endOffset + 1); // where `=> value` returns
      const range = { start: place(startOffset), end, restrictToFunction: true };
      number += 1;
      for (const location of post("Debugger.getPossibleBreakpoints", range).locations) found.push([number, location]);
    }
  }
  return found;
};
