// Fills a cache of the package that is given, and prints what caches.cjs says of it.
import { Session } from "inspector";
import { createRequire } from "module";

const [name, folder, options, keeps] = process.argv.slice(2);
const load = createRequire(`${folder}/index.js`);
const find = createRequire(import.meta.url)("../../../layer/truemem/local/caches.cjs")({
  Session,
  host: globalThis,
  functions: Function.prototype,
});
const found = load(name);
const Cache = found.LRUCache ?? found.TTLCache ?? found;
let isAsked = false;
class Named extends Cache {}
const { get } = Object.getOwnPropertyDescriptor(Cache.prototype, "size") ?? {};
if (get)
  Object.defineProperty(Named.prototype, "size", {
    get() {
      return isAsked ? process.exit(9) : get.call(this); // a getter of the user's may do anything
    },
  });
const size = (page) => page.length;
const sizes = { ...(name === "lru-6" && { length: size }), ...(options.includes("maxSize") && { sizeCalculation: size }) };
const made = [Cache, Named].map((Kind) => new Kind({ ...JSON.parse(options), ...sizes }));
const without = new Cache({ ttl: 1000 });
for (const cache of [...made, without]) for (let n = 0; n < Number(keeps); n += 1) cache.set(n, "page");
isAsked = true;
find(1e6);
const said = find(2e6);
console.log(JSON.stringify({ said, globals: Object.keys(globalThis).filter((key) => key.includes("truemem")) }));
process.exit(made.concat(without).length - 3); // they are alive until here
