// Caches that have a bound of their own, and how full they are: npm's lru-cache (6 to 11) and @isaacs/ttlcache. Loaded
// by heap.cjs in a run on a developer's machine, in a context of its own: the function may have broken built-ins.
//
// A bundle has no modules to search, and its classes other names: they are known by their methods. V8 is asked for the
// objects of a class, which takes up to eight collections: only while the heap grows, or while a cache fills.
"use strict";

const GREW = 16 * 1024; // bytes, since the last look
const OWNER = "truemem caches"; // for a moment, a name in the function's global object: so the inspector hands objects over
const KINDS = [
  { name: "npm's lru-cache", has: ["itemCount", "rforEach"], count: "itemCount", bounds: { max: "length" } }, // 6
  { name: "npm's lru-cache", has: ["getRemainingTTL", "rkeys"], count: "size", bounds: { max: "size", maxSize: "calculatedSize" } },
  { name: "npm's @isaacs/ttlcache", has: ["getRemainingTTL", "purgeToCapacity"], count: "size", bounds: { max: "size" } },
];
const GETTER = /^get \w+ ?\(\) ?\{\s*return [^;{}]+;?\s*\}$/; // one that returns a field, and does nothing else

const about = Object.getOwnPropertyDescriptor;
const textOf = (code) => Function.prototype.toString.call(code);

// Returns a function that takes the heap's bytes, and returns `{ id, name, entries, bound, unit }` of each cache.
// `host`: the function's global object, `functions`: its Function.prototype.
module.exports = ({ Session, host, functions }) => {
  const ids = new WeakMap();
  let last = 0; // of these ids
  let level = Infinity;
  let looks = 0;
  let known = []; // { prototype, kind } of each class that was found
  let found = [];

  return (bytes) => {
    if (bytes > level + GREW || found.some(({ entries, bound }) => entries < bound)) {
      found = look();
      level = bytes;
    }
    level = Math.min(level, bytes);
    return found;
  };

  function look() {
    const session = new Session();
    session.connect();
    try {
      looks += 1;
      // To look through all functions V8 compiles code, of 200 KiB at times: that is seen in the next reading.
      if (!known.length && Number.isInteger(Math.log2(looks))) known = heirs(session, functions).flatMap(kindOf);
      return known.flatMap((each) => heirs(session, each.prototype).flatMap((cache) => figures(cache, each)));
    } finally {
      delete host[OWNER];
      session.disconnect(); // lets go of all objects
    }
  }

  // All objects that inherit from this one: an array of the function's realm. There is no proxy among them.
  function heirs(session, prototype) {
    const post = (method, given) => {
      let result;
      session.post(method, given, (error, value) => (result = value));
      return result;
    };
    const all = [];
    const take = (array) => {
      for (let i = 0; i < array.length; i += 1) all.push(array[i]); // its iterator may be broken
    };
    host[OWNER] = { prototype, take };
    const { result } = post("Runtime.evaluate", { expression: `globalThis["${OWNER}"].prototype` });
    const { objects } = post("Runtime.queryObjects", { prototypeObjectId: result.objectId });
    const functionDeclaration = `function () { globalThis["${OWNER}"].take(this); }`;
    post("Runtime.callFunctionOn", { objectId: objects.objectId, functionDeclaration });
    return all;
  }

  function figures(cache, { prototype, kind }) {
    const read = (name) => {
      const own = about(cache, name);
      const getter = about(prototype, name)?.get;
      return own || !getter ? own?.value : GETTER.test(textOf(getter)) && getter.call(cache);
    };
    try {
      const [fullest] = Object.entries(kind.bounds)
        .map(([key, of]) => ({ key, entries: read(of), bound: read(key) }))
        .filter(({ entries, bound }) => entries > 0 && Number.isInteger(bound) && bound > 0)
        .sort((a, b) => b.entries / b.bound - a.entries / a.bound);
      if (!fullest) return [];
      if (!ids.has(cache)) ids.set(cache, (last += 1));
      const { key, entries, bound } = fullest;
      const unit = entries === read(kind.count) ? "entries" : "units of size";
      return [{ id: `${ids.get(cache)} ${key}`, name: kind.name, entries, bound, unit }];
    } catch {
      return []; // the prototype of a class that inherits from it has no fields
    }
  }
};

function kindOf(code) {
  try {
    if (!textOf(code).startsWith("class")) return []; // another function makes its prototype when it is asked for it
    const { value: prototype } = about(code, "prototype");
    const kind = KINDS.find(({ has }) => has.every((name) => about(prototype, name)));
    return kind ? [{ prototype, kind }] : [];
  } catch {
    return [];
  }
}
