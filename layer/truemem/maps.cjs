// Where a place of built code is in the source that it was built from, by its source map (ECMA-426), which is inline or
// beside the file. Loaded by lines.cjs in the function, and by the workbench on a developer's machine.
//
// Node.js's own module.SourceMap makes objects of all mappings, 10 to 15 times the map's size: a function may not have that
// much. Here the mappings are read once, for the places that are asked for.
"use strict";

const WIDE = 200; // characters of a line that tells no place: it is minified
const MARK = /^\/\/[#@] sourceMappingURL=(\S+)\s*(?:\/\/[^\n]*\s*)*$/; // comments may follow it
const DATA = /^data:application\/json[^,]*?(;base64)?,/;
const DISTANCES = [0, 1, 7]; // between a function's name and its parameters: `f(`, `f=(`, `f=async e`

const VALUES = new Int8Array(128).fill(-1);
for (let i = 0; i < 64; i += 1) VALUES["ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".charCodeAt(i)] = i;

// The mapping at each of the places, or before it on its line: { column, source, line, name }, undefined where there is
// none. All are counted from 0; name is -1 where the mapping has none. `places` have line and column.
function mappingsAt(text, places) {
  const order = places.map((_, i) => i).sort((a, b) => places[a].line - places[b].line || places[a].column - places[b].column);
  const found = places.map(() => undefined);
  const now = [0, 0, 0, 0, 0]; // column, source, line, column in the source, name
  let line = 0;
  let next = 0;
  let fields = 0;
  let value = 0;
  let shift = 0;
  let last; // the mapping before, on this line
  const wanted = () => (next < order.length && places[order[next]].line <= line ? places[order[next]] : undefined);
  const tell = () => {
    if (places[order[next]].line === line) found[order[next]] = last;
    next += 1;
  };
  for (let i = 0; i <= text.length && next < order.length; i += 1) {
    const c = text.charCodeAt(i);
    if (c === 44 || c === 59 || i === text.length) { // , ;
      if (fields) {
        while (wanted() && places[order[next]].column < now[0]) tell();
        if (wanted()) last = fields < 4 ? undefined : { column: now[0], source: now[1], line: now[2], name: fields > 4 ? now[4] : -1 };
      }
      fields = 0;
      if (c === 44) continue;
      while (wanted()) tell();
      line += 1;
      now[0] = 0;
      last = undefined;
      continue;
    }
    const digit = VALUES[c & 127];
    value |= (digit & 31) << shift;
    shift += 5;
    if (digit & 32) continue;
    now[fields] += value & 1 ? -(value >> 1) : value >> 1;
    fields += 1;
    value = shift = 0;
  }
  return found;
}

// The map of a file, as it is written; undefined if it has none. `read(path)` returns a file's text, or undefined.
function mapOf(file, text, { read, base64 }) {
  const from = text.lastIndexOf("sourceMappingURL=");
  const [, url] = (from >= 0 && MARK.exec(text.slice(Math.max(0, from - 4)))) || [];
  if (!url) return undefined;
  const data = DATA.exec(url);
  if (data) return parsed(data[1] ? base64(url.slice(data[0].length)) : decodeURIComponent(url.slice(data[0].length)));
  if (/^(?!file:)\w+:/.test(url)) return undefined;
  const beside = read(joined(file, decodeURIComponent(url)));
  return beside && parsed(beside);
}

function parsed(text) {
  const { mappings, sources, sourceRoot, names, sourcesContent } = JSON.parse(text.replace(/^\)\]\}'?[^\n]*\n/, ""));
  return typeof mappings === "string" && Array.isArray(sources) ? { mappings, sources, sourceRoot, names, sourcesContent } : undefined;
}

// A path that is relative to a file. What leads above all folders stays in them.
function joined(file, path) {
  if (path.startsWith("file://")) return path.slice("file://".length);
  const parts = path.startsWith("/") ? [] : file.split("/").slice(0, -1);
  for (const part of path.split("/")) {
    if (part === "..") parts.pop();
    else if (part !== "." && (part || !parts.length)) parts.push(part);
  }
  return parts.join("/");
}

// For each of `places` in a file its place in the source, { file, line, name, content }, undefined for one without.
// Lines are counted from 1, those and columns of `places` from 0. A place with a function's name is that of its
// parameters: `name` is what the source calls it. `content` is the source, if the map has it.
function mapped(file, text, places, { read, base64 }) {
  const map = places.length ? mapOf(file, text, { read, base64 }) : undefined;
  if (!map) return undefined;
  const names = places.flatMap(({ line, column, name }) => (name ? DISTANCES.map((far) => ({ line, column: column - name.length - far })) : []));
  const found = mappingsAt(map.mappings, [...places, ...names]);
  let at = places.length;
  return places.map(({ name }, i) => {
    const own = name ? found.slice(at, (at += DISTANCES.length)).find((each, far) => each && each.name >= 0 && each.column === names[at - places.length - DISTANCES.length + far].column) : undefined;
    const mapping = found[i];
    if (!mapping || typeof map.sources[mapping.source] !== "string") return undefined;
    const source = `${map.sourceRoot ? `${map.sourceRoot.replace(/\/$/, "")}/` : ""}${map.sources[mapping.source]}`;
    const virtual = /^\w+:\/\/[^/]*\/(?:\.\/)?(.*?)(?:\?\w*)?$/.exec(source); // webpack://name/./src/a.ts?1234
    return {
      file: virtual && !source.startsWith("file:") ? joined("", virtual[1]) : joined(file, source),
      isVirtual: Boolean(virtual),
      line: mapping.line + 1,
      name: own ? map.names[own.name] : name,
      content: map.sourcesContent && map.sourcesContent[mapping.source],
    };
  });
}

// Puts spots into the source: lines from 1, and a column, from 1, where the line tells no place. A spot has file, line,
// column, name, and `of`, the place of its function. Libraries' own files have no map; their paths begin at the `root`.
function locate(spots, readCode, reading, root) {
  for (const file of new Set(spots.map((each) => each.file))) {
    const own = spots.filter((each) => each.file === file);
    const text = readCode(file) || "";
    const isUsers = !/^(?:\/|node:)/.test(file);
    const places = own.flatMap(({ line, column, of, name }) => [{ line, column }, { line: of.line, column: of.column, name }]);
    let found;
    try {
      found = isUsers && mapped(file, text, places, reading);
    } catch {
      // it is no source map
    }
    own.forEach((spot, i) => {
      let begin = 0;
      for (let line = 0; line < spot.line; line += 1) begin = text.indexOf("\n", begin) + 1;
      Object.assign(spot, { file: file.startsWith(root) ? file.slice(root.length) : file, line: spot.line + 1, column: isWide(text, begin) ? spot.column + 1 : 0 });
      if (!found || !found[2 * i]) return;
      Object.assign(spot, { file: found[2 * i].file, line: found[2 * i].line, column: 0 }, found[2 * i + 1] && { name: found[2 * i + 1].name });
    });
  }
}

// Is the line that begins there minified?
function isWide(text, begin) {
  const end = text.indexOf("\n", begin);
  return (end < 0 ? text.length : end) - begin > WIDE;
}

// Without the map that is inline.
const code = (text) => text && text.slice(0, Math.max(text.lastIndexOf("//# sourceMappingURL=data:"), 0) || text.length);

module.exports = { code, isWide, locate, mapped };
