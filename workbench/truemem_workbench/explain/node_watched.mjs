// Something that is watched in a Node.js function: an object or a variable, and the lines after which it had more.
//
// Each function sees a variable by its name, and may see another one of that name: what it has seen counts if it began or
// ended with the value that the variable had.

import { types } from "node:util";
import vm from "node:vm";

const ENOUGH = 3; // invocations in which it was seen to grow, after which it is not watched any more
const EARLY = 10; // invocations in which it is watched between the looks: what only some of them keep needs more than one
const LATE = 20; // the same after the last look
const MOST_MEMBERS = 50; // members of an object that are compared

// Where we are: an Error of a realm of our own, because the user's may be frozen or changed. Its stack is an array.
export const here = vm.runInNewContext(
  "Error.stackTraceLimit = 30; Error.prepareStackTrace = (_, sites) => sites; () => new Error()",
);

const getter = (prototype, name) => Object.getOwnPropertyDescriptor(prototype, name).get;
const sizeOfMap = getter(Map.prototype, "size");
const sizeOfSet = getter(Set.prototype, "size");
const lengthOfTyped = getter(Object.getPrototypeOf(Uint8Array.prototype), "length");

// How much a value has: the number of its parts, then what it refers to. No code of the user's runs.
const size = (value) => {
  if (typeof value === "string") return [value.length];
  if ((typeof value !== "object" && typeof value !== "function") || value === null || types.isProxy(value)) return [0];
  if (Array.isArray(value)) return [value.length];
  if (types.isMap(value)) return [sizeOfMap.call(value)];
  if (types.isSet(value)) return [sizeOfSet.call(value)];
  if (types.isTypedArray(value)) return [lengthOfTyped.call(value)];
  const names = Reflect.ownKeys(value);
  return [names.length, ...names.slice(-MOST_MEMBERS).map((name) => Object.getOwnPropertyDescriptor(value, name)?.value)];
};

const sizeOfVariable = (value) => {
  const [count, ...members] = size(value);
  return [count, typeof value === "object" ? value : null, ...members];
};

const grown = (before, now) =>
  now[0] > before[0] || (now[0] === before[0] && now.some((each, at) => each && each !== before[at]));

const equal = (one, other) => one.length === other.length && one.every((each, at) => each === other[at]);

export class Watched {
  script = ""; // of a variable
  object = null; // WeakRef to it, or to a function that sees the variable
  stacks = new Map(); // by stack, as JSON: invocations
  #left = EARLY; // invocations in which it may still be watched
  #seen = 0; // invocations in which it grew
  #views = new Map(); // by function: what it has seen in this invocation
  #begin = null; // {value, size} before the invocation
  #latest = null; // the size at the latest step

  constructor(id, variable) {
    this.id = id;
    this.variable = variable;
  }

  get isOpen() {
    return this.object !== null && this.#left > 0 && this.#seen < ENOUGH;
  }

  again() {
    this.#left = LATE;
  }

  close() {
    this.#left = 0;
  }

  begin(value) {
    const all = this.#size(value);
    this.#views.clear();
    this.#begin = { value, size: all };
    this.#latest = all;
    if (!this.variable) this.#views.set(0, { first: value, last: value, size: all, grew: [] });
  }

  // A function sees it: 0 for an object, which is the same from everywhere. `stack()` tells where it has just been.
  see(from, value, stack) {
    const now = this.#size(value);
    const view = this.#views.get(from) ?? { first: value, size: now, grew: [] };
    if (now[0] < view.size[0]) view.grew = view.grew.filter(({ count }) => count < now[0]); // the others are undone
    if (grown(view.size, now) && !equal(this.#latest, now)) {
      view.grew.push({ count: view.size[0], stack: JSON.stringify(stack()) });
    }
    this.#views.set(from, Object.assign(view, { last: value, size: now }));
    this.#latest = now;
  }

  // The invocation is over: its lines count once, if it has left more behind. `seen`: stacks that are known otherwise.
  end(value, seen) {
    const found = new Set(seen.map((stack) => JSON.stringify(stack)));
    if (grown(this.#begin.size, this.#size(value))) {
      for (const { grew } of this.#own(value)) for (const { stack } of grew) found.add(stack);
    }
    for (const stack of found) this.stacks.set(stack, (this.stacks.get(stack) ?? 0) + 1);
    if (found.size > 0) this.#seen += 1;
    this.#left -= 1;
    this.begin(value);
  }

  // Refer to nothing of the user's: a snapshot would have it.
  forget() {
    this.#views.clear();
    this.#begin = this.#latest = null;
  }

  #size(value) {
    return this.variable ? sizeOfVariable(value) : size(value);
  }

  // The views of this variable: from its value before to that after, each from where another one ended.
  #own(value) {
    const values = new Set([this.#begin.value, value]);
    const others = new Set(this.#views.values());
    const own = [];
    for (let more = true; more; ) {
      more = false;
      for (const view of others) {
        if (!values.has(view.first) && !values.has(view.last)) continue;
        values.add(view.first).add(view.last);
        own.push(view);
        others.delete(view);
        more = true;
      }
    }
    return own;
  }
}
