// Loads its settings afresh for each event.
import { createRequire } from "node:module";

const require = createRequire(import.meta.url);
const loader = require("./loader.cjs");

export async function handler() {
  return loader.settings().length;
}
