// Where places of built code are in their source. Reads from standard input places as [file, line, column, function],
// counted from 1, column 0 where it is not known; and the folder in which relative files are. Prints for each the same
// of the source; column 0 where the line alone tells it. Argument: the layer's maps.cjs.

import fs from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";

const MAPPED_BYTES = 256 * 1024 * 1024;
const NO_COLUMN = 2 ** 30; // the last mapping of the line

const { isWide, mapped } = createRequire(import.meta.url)(process.argv[2]);
const { folder, places } = JSON.parse(fs.readFileSync(0, "utf8"));

const read = (file) => {
  try {
    return fs.statSync(file).size <= MAPPED_BYTES ? fs.readFileSync(file, "utf8") : undefined;
  } catch {
    return undefined;
  }
};
const base64 = (text) => Buffer.from(text, "base64").toString();

// The map alone may be here.
const built = (file) => read(file) ?? (read(`${file}.map`) && `//# sourceMappingURL=${path.basename(file)}.map`);

// A source was elsewhere when it was built, or its path begins at a folder that the map does not say: then the file with
// this content, below a folder that the built file is in.
const onDisk = ({ file, content }, from) => {
  const parts = file.split("/").filter(Boolean);
  if (path.isAbsolute(file) && fs.existsSync(file)) return file;
  for (let above = path.dirname(from); ; above = path.dirname(above)) {
    for (let first = 0; first < parts.length; first += 1) {
      const candidate = path.join(above, ...parts.slice(first));
      if (content === undefined ? first === 0 && fs.existsSync(candidate) : read(candidate) === content) return candidate;
    }
    if (above === path.dirname(above)) return file;
  }
};

const answers = new Array(places.length);
for (const name of new Set(places.map(([each]) => each))) {
  const own = places.flatMap(([each], at) => (each === name ? [at] : []));
  const file = path.resolve(folder, name);
  const text = built(file);
  const begins = [0];
  for (let end = text?.indexOf("\n") ?? -1; end >= 0; end = text.indexOf("\n", end + 1)) begins.push(end + 1);
  let found;
  try {
    const wanted = own.map((at) => ({ line: places[at][1] - 1, column: (places[at][2] || NO_COLUMN) - 1, name: places[at][3] }));
    found = text === undefined || name.includes("/node_modules/") ? undefined : mapped(file, text, wanted, { read, base64 });
  } catch {
    // a map that is none
  }
  own.forEach((at, i) => {
    const [, line, column, called] = places[at];
    const source = found?.[i];
    const wide = begins[line - 1] !== undefined && isWide(text, begins[line - 1]);
    answers[at] = source ? [onDisk(source, file), source.line, 0, source.name ?? ""] : [name, line, wide ? column : 0, called];
  });
}
fs.writeSync(1, JSON.stringify(answers));
