// Deduces the line that keeps an allocation, from the source of the functions on its stack. Loaded by lines.cjs.
//
// An object is followed from where it is made, or from the call that returns it, to what keeps it: `outer.push(it)`,
// `outer[key] = it`, `emitter.on(name, () => it)`, `setInterval`. Also into a function that it is given to and that ran,
// and out of one that returns it. It reads tokens, not a syntax tree. Where several places may keep it, or none, the
// answer is a function on the stack.
"use strict";

const { CONTROL, DECLARE, Source, VALUE, words } = require("./source.cjs");
const { calleeOf, calling, caught, endOfChain, isEmpty, isLiteral, leftOf, mayBeSkipped, parameterAt, position, rootOf, self, uses } = require("./source.cjs");

const WHOLE = 512 * 1024; // characters of a file that is read as a whole; of others only the function
const CHARACTER_BYTES = 32; // that reading one takes
const PART = 64 * 1024;
const FILES = 8;
const DEPTH = 4; // functions that an object is followed into
const RIVAL = 1.5; // a place whose score is lower by less may be the one as well

const KEEPERS = words(
  "push unshift set add on once addListener prependListener prependOnceListener addEventListener subscribe enqueue " +
    "append addLast insert register splice concat",
);
const OWN_KEEPERS = words("subscribe enqueue append addLast insert register"); // methods that the user may have written
const READERS = words("get has at keys values entries includes indexOf find some every join test exec");
const GLOBAL_KEEPERS = words("setInterval setTimeout setImmediate");
const REMOVERS = words("delete clear shift pop splice removeListener off removeAllListeners unsubscribe");
const GLOBALS = words("this globalThis global process module exports");
const BUILT_IN = words("Array Object JSON Buffer String Number Math Date Promise Reflect Symbol BigInt structuredClone");
const PLAIN = words("Number Boolean parseInt parseFloat isNaN Math Date console performance require");

// One function that an object is in.
class Scope {
  constructor(source, about) {
    this.source = source;
    this.about = about;
    this.isLibrary = source.file.startsWith("/"); // it keeps what its own variables have, not what it is given
    this.given = new Map(); // of a parameter: how sure it is that the caller's object lives on
    this.receiver = 10; // the same of `this`
    this.declared = new Map(); // name: the first token of its value, -1 for a parameter, -2 for others
    this.declare();
  }

  declare() {
    const { source, about } = this;
    for (let i = about.at; i <= about.closes; i += 1)
      if (source.isWord(i) && !source.isMember(i)) this.declared.set(source.value(i), -1);
    for (let i = about.first; i <= about.last; i += 1) {
      if (source.is(i, "=>")) this.declareParameters(source.is(i - 1, ")") ? source.partner[i - 1] : i - 1, i - 1);
      if (!source.isName(i)) continue;
      const value = source.value(i);
      if (value === "function" || value === "class") this.declared.set(source.value(i + 1), -2);
      if (value === "catch" && source.is(i + 1, "(")) this.declareParameters(i + 2, source.partner[i + 1]);
      if (!DECLARE.has(value)) continue;
      let names = [];
      for (let at = i + 1; at <= about.last; at += 1) {
        if (source.isWord(at)) names.push(source.value(at));
        if (source.is(at, "=") || source.is(at, "of") || source.is(at, "in")) {
          if (source.parent[at] !== source.parent[i]) continue; // a default
          for (const name of names) this.declared.set(name, at + 1);
          names = [];
          break;
        }
        if (source.is(at, ";") || (source.parent[at] === source.parent[i] && source.isBoundary(at))) break;
      }
      for (const name of names) this.declared.set(name, -2);
    }
  }

  declareParameters(from, to) {
    for (let i = from; i <= to; i += 1)
      if (this.source.isWord(i) && !this.source.isMember(i) && !this.declared.has(this.source.value(i)))
        this.declared.set(this.source.value(i), -2);
  }

  // How sure is it that what this token names lives on after the function? 0: it does not.
  outer(root, depth = 0) {
    const { source } = this;
    const name = source.value(root);
    if (source.is(root - 1, "new")) return 0;
    if (name === "this") return this.about.name === "constructor" || this.isLibrary ? 0 : this.receiver;
    if (GLOBALS.has(name)) return 10;
    if (!source.isName(root)) return source.is(root, ")") ? 4 : 0;
    if (!this.declared.has(name)) return 10;
    const first = this.declared.get(name);
    if (first === -1) return this.isLibrary ? 0 : this.given.has(name) ? this.given.get(name) : 7;
    if (first === -2 || depth > 3) return 0;
    let at = first;
    while (source.is(at, "await") || source.is(at, "(")) at += 1;
    if (!source.isName(at) || source.is(at, "new") || source.is(at, "function") || source.is(at, "async")) return 0;
    if (BUILT_IN.has(source.value(at))) return 0;
    const of = this.outer(at, depth + 1);
    if (!of) return 0;
    const last = endOfChain(source, at);
    // What a container returns is in it, what another function returns may be new.
    return source.is(last, ")") && !READERS.has(source.value(source.partner[last] - 1)) ? Math.min(of, 3) : of - 1;
  }

  // The same function, called with what this caller has.
  with(given, receiver) {
    return Object.assign(Object.create(Scope.prototype), this, { given, receiver });
  }
}

class Deduction {
  constructor(readSource, hasRun, memoryKiB) {
    this.readSource = readSource;
    this.hasRun = hasRun;
    this.left = (memoryKiB * 1024) / CHARACTER_BYTES; // characters
    this.files = new Map();
  }

  // A file as a whole, or undefined.
  whole(file) {
    if (!this.files.has(file)) {
      if (this.files.size >= FILES) return undefined;
      const text = this.readSource(file);
      if (text === undefined) return undefined;
      const isSmall = text.length <= WHOLE && text.length <= this.left;
      if (isSmall) this.left -= text.length;
      const source = isSmall ? new Source(file, text, 0, text.length) : undefined;
      this.files.set(file, { text, source });
    }
    return this.files.get(file).source;
  }

  // The scope of a frame, undefined if its source cannot be read.
  scope(frame) {
    if (frame.scope !== undefined) return frame.scope || undefined;
    frame.scope = false;
    let source = this.whole(frame.file);
    const { text } = this.files.get(frame.file) || {};
    if (text === undefined) return undefined;
    let place = 0;
    for (let line = 0; line < frame.line; line += 1) {
      place = text.indexOf("\n", place) + 1;
      if (!place) return undefined;
    }
    place += frame.column;
    if (!source) source = new Source(frame.file, text.slice(0, place + PART), place, Math.min(text.length, place + PART));
    const about = source.functionAt(source.at(place));
    if (about) frame.scope = new Scope(source, { ...about, name: about.name || frame.name });
    return about ? frame.scope : undefined;
  }

  // { best, at, lines } for one group of frames with the names of what the innermost calls. `lines` are places.
  place(frames, callees) {
    const lines = [...frames];
    const keeps = []; // what may be the line
    const isSure = () => keeps.some((each) => each.score >= 7);
    let inner;
    let last; // the user's frame that the object was followed to
    for (let i = frames.length - 1; i >= 0 && !isSure(); i -= 1) {
      if (!frames[i].library) last = frames[i];
      const scope = this.scope(frames[i]);
      if (!scope && !frames[i].library) break;
      const caller = scope && i > 0 && this.scope(frames[i - 1]);
      if (caller) scope.receiver = this.receiver(caller, frames[i], scope.receiver);
      for (const carriers of !scope ? [] : inner ? [this.calls(scope, inner)] : this.callees(scope, callees)) {
        for (const { at } of inner ? carriers.slice() : []) {
          const root = at === undefined ? -1 : rootOf(scope.source, at);
          if (root >= 0 && root !== at && scope.declared.has(scope.source.value(root)) && scope.outer(root) <= 3) {
            carriers.push({ source: scope.source, from: root, to: root, doubt: 0, used: true });
            this.begun(scope, scope.source.value(root), 0, { keeps }, 0);
          }
        }
        // None: it is called by another name.
        const some = carriers.length ? carriers : this.allocations(scope).map((each) => ({ ...each, doubt: each.doubt + 1 }));
        const found = this.followed(scope, some).keeps;
        lines[i] = same(scope, some) || lines[i];
        keeps.push(...found);
        if (isSure()) break;
      }
      inner = frames[i];
    }
    frames.slice(0, -1).forEach((frame, i) => {
      const scope = lines[i] === frame && this.scope(frame);
      if (scope) lines[i] = same(scope, this.calls(scope, frames[i + 1])) || frame;
    });
    if (!isSure() && !frames[0].library) this.byCallers(frames[0], keeps);
    return { best: theOnly(keeps), at: last, lines };
  }

  // How sure it is that the object whose method is called lives on after the caller.
  receiver(caller, frame, unknown) {
    const sites = this.calls(caller, frame).filter((each) => each.at !== undefined && caller.source.isMember(each.at));
    return sites.length ? Math.max(...sites.map((each) => caller.outer(rootOf(caller.source, each.at)))) : unknown;
  }

  // Where the innermost function calls what V8 has seen below it, that with most first. Last all that may allocate.
  *callees(scope, callees) {
    for (const [name] of [...callees].sort((a, b) => b[1] - a[1])) {
      if (!name) break; // most is made by the function itself
      const found = KEEPERS.has(name) ? [] : this.calls(scope, { name });
      if (found.length) yield found;
    }
    yield this.allocations(scope);
  }

  allocations(scope) {
    const { source, about } = scope;
    const carriers = [];
    for (let i = about.first; i <= about.last; i += 1) {
      let doubt;
      if (isEmpty(source, i)) doubt = 3;
      else if (source.is(i, "new") || source.is(i, "`")) doubt = 0;
      else if (source.is(i, "[") && !source.endsOperand(i - 1)) doubt = 0;
      else if (source.is(i, "{") && i > about.first && isLiteral(source, i)) doubt = 0;
      else if (source.is(i, "=>") || source.is(i, "function")) doubt = 1;
      else if (source.is(i, "(") && source.endsOperand(i - 1) && !CONTROL.has(source.value(i - 1))) {
        const root = rootOf(source, i - 1);
        if (!PLAIN.has(source.value(root)) && !KEEPERS.has(source.value(i - 1)) && !READERS.has(source.value(i - 1))) doubt = 1;
      } else if (source.is(i, "+")) doubt = 2;
      if (doubt === undefined) continue;
      const around = source.functionAround(i);
      if (around && around.begin > about.begin && !source.is(i, "=>") && !source.is(i, "function")) continue; // has a frame of its own
      const from = source.is(i, "(") ? rootOf(source, i - 1) : i;
      carriers.push({ source, from, to: source.partner[i] > i ? source.partner[i] : i, doubt });
    }
    if (about.name === "constructor")
      for (const i of uses(scope, "this", about.first)) carriers.push({ source, from: i, to: i, doubt: 0, used: true });
    return carriers;
  }

  // Where this function calls, or contains, another.
  calls({ source, about }, { name, scope: inner }) {
    if (inner && inner.source === source && inner.about.begin > about.begin && inner.about.last <= about.last) {
      const around = source.functionAround(inner.about.begin - 1);
      if (around && around.begin === about.begin) {
        const own = { source, from: inner.about.begin, to: inner.about.last, doubt: 0 };
        if (!inner.about.name || inner.about.arrow === false) return [own];
        const named = calling(source, inner.about.name, about.first, about.last);
        return named.length ? named : [own];
      }
    }
    const plain = String(name || "").replace(/^.*[. ]/, "");
    return plain ? calling(source, plain, about.first, about.last) : [];
  }

  followed(scope, carriers, depth = 0) {
    const found = { keeps: [], returns: false };
    const tainted = new Map();
    const queue = carriers.map((each) => ({ ...each }));
    for (let turns = 0; queue.length && turns < 400; turns += 1) {
      const carrier = queue.shift();
      const also = []; // local objects that it was put into, by their own methods
      const effect = this.climbed(scope, carrier, found, depth, also);
      for (const name of also) this.begun(scope, name, carrier.doubt, found, depth);
      for (const name of [...effect, ...also]) {
        if (tainted.has(name) && tainted.get(name) <= carrier.doubt) continue;
        tainted.set(name, carrier.doubt);
        const { source } = scope;
        for (const i of uses(scope, name, scope.about.first))
          if (i > carrier.to || i < carrier.from) queue.push({ source, from: i, to: i, doubt: carrier.doubt, used: true });
      }
    }
    return found;
  }

  // Follows a value outwards through its expression. Returns the names that hold it then.
  climbed(scope, carrier, found, depth, also) {
    const { source, about } = scope;
    let { from, to } = carrier;
    const { doubt } = carrier;
    if (carrier.used && depth < DEPTH && source.is(from + 1, ".") && source.is(from + 3, "("))
      this.entered(this.defined(source, source.value(from + 2), false), scope, from + 3, ["this"], doubt, found, depth);
    const keep = (at, sure, emptied = false) => {
      const score = sure - doubt - (emptied ? 6 : 0);
      if (sure > 0) found.keeps.push({ ...source.place(at), score, emptied, name: about.name, source, at, about });
    };
    for (;;) {
      const left = leftOf(source, from, about);
      if (left.arrow >= 0 || left.returns) {
        const around = source.functionAround(from);
        if (!around || around.begin <= about.begin) {
          found.returns = true;
          return [];
        }
        [from, to] = [around.begin, around.last];
        continue;
      }
      if (left.assign >= 0) return this.assigned(scope, left, { from, to, doubt }, keep, found);
      const open = source.parent[from];
      if (open < about.first && !(open === about.first)) {
        if (open < 0 || !source.is(about.first, "{")) found.returns = found.returns || about.arrow;
        return [];
      }
      const before = open - 1;
      if (source.is(open, "(")) {
        if (CONTROL.has(source.value(before)) || (source.is(before, "await") && source.is(before - 1, "for"))) return left.declares;
        if (source.endsOperand(before)) {
          const kept = this.called(scope, open, { from, to, doubt }, found, keep, depth, also);
          if (kept) return kept;
          from = rootOf(source, before);
        } else from = open;
        to = source.partner[open];
      } else if (source.is(open, "[")) {
        if (source.endsOperand(before)) return [];
        [from, to] = [open, source.partner[open]];
      } else if (source.is(open, "${")) {
        from = source.parent[open];
        to = source.partner[from];
      } else if (source.is(open, "{")) {
        if (isLiteral(source, open)) {
          [from, to] = [open, source.partner[open]];
          continue;
        }
        const around = source.functionAround(from);
        if (!carrier.used || !around || around.begin <= about.begin) return caught(source, open, about);
        [from, to] = [around.begin, around.last]; // the closure holds it
      } else return [];
      if (to < from) return [];
    }
  }

  // An argument of a call. Returns names that hold it then, or undefined if the call's value may hold it.
  called(scope, open, { from, doubt }, found, keep, depth, also) {
    const { source, about } = scope;
    const callee = calleeOf(source, open);
    const name = source.value(callee);
    const root = rootOf(source, callee);
    const isMethod = callee === open - 1 && source.isMember(callee);
    if (!isMethod && GLOBAL_KEEPERS.has(name)) {
      keep(open - 1, name === "setInterval" ? 10 : 2);
      return name === "setInterval" ? [] : undefined;
    }
    if (isMethod && source.is(root, "Object") && name === "assign") {
      if (from > open + 2) keep(open - 1, Math.min(scope.outer(open + 1), 4));
      return undefined;
    }
    const isNew = source.is(root - 1, "new");
    const inner = depth < DEPTH && (!KEEPERS.has(name) || OWN_KEEPERS.has(name)) ? this.defined(source, name, isNew, callee) : undefined;
    if (isMethod && KEEPERS.has(name) && !inner) {
      const sure = scope.outer(root);
      if (sure > 3) {
        keep(open - 1, sure, removes(scope, open - 1, root));
        return name === "concat" ? undefined : [];
      }
      if (!source.isName(root) || isNew) return undefined;
      if (sure) keep(open - 1, sure);
      also.push(source.value(root));
      return [];
    }
    if (inner) {
      const names = [parameterAt(inner, position(source, open, from))];
      if (inner.about.name === "constructor") names.push("this");
      if (this.entered(inner, scope, open, names, doubt, found, depth)) {
        if (isMethod && source.isName(root) && scope.declared.has(source.value(root)) && scope.outer(root) <= 3) also.push(source.value(root));
        return undefined;
      }
    }
    if (PLAIN.has(source.value(root)) || BUILT_IN.has(source.value(root)) || READERS.has(name)) return undefined;
    if (isMethod && scope.outer(root) >= 7) keep(open - 1, 3);
    else if (!inner) keep(open - 1, 1);
    return undefined;
  }

  // Follows what a function is given: parameters, or its `this`. If it keeps none of it for sure, what it makes.
  entered(inner, scope, open, names, doubt, found, depth) {
    if (!inner || inner.about.begin === scope.about.begin) return false;
    const { source } = scope;
    const given = new Map();
    for (let i = open + 1, at = 0; i < source.partner[open]; at += 1) {
      const parameter = parameterAt(inner, at);
      if (parameter) given.set(parameter, source.isWord(i) && !source.is(i + 1, "=>") ? scope.outer(i) : 0);
      while (i < source.partner[open] && !source.is(i, ",")) i = source.partner[i] > i ? source.partner[i] + 1 : i + 1;
      i += 1;
    }
    const within = inner.with(given, source.isMember(open - 1) ? scope.outer(rootOf(source, open - 1)) : 10);
    const starts = names.filter(Boolean).flatMap((name) => uses(inner, name, inner.about.first));
    const carriers = starts.map((i) => ({ source: inner.source, from: i, to: i, doubt: doubt + 0.5, used: true }));
    const { keeps } = this.followed(within, carriers, depth + 1);
    found.keeps.push(...keeps);
    if (!keeps.some((each) => each.score >= 6)) found.keeps.push(...this.made(within, doubt + 2.5, depth));
    return true;
  }

  made(scope, doubt, depth) {
    const carriers = this.allocations(scope).map((each) => ({ ...each, doubt: each.doubt + doubt }));
    return this.followed(scope, carriers, depth + 1).keeps;
  }

  // Of a local object that the function had from another: does that one keep it?
  begun(scope, name, doubt, found, depth) {
    const { source } = scope;
    const first = scope.declared.get(name);
    if (depth >= DEPTH || !(first >= 0)) return;
    const at = source.is(first, "await") ? first + 1 : first;
    const last = endOfChain(source, at);
    if (!source.is(last, ")")) return;
    const inner = this.defined(source, source.value(source.partner[last] - 1), false);
    if (inner && inner.about.begin !== scope.about.begin) found.keeps.push(...this.made(inner, doubt + 1.5, depth));
  }

  assigned(scope, { assign, first, declares }, { from, to }, keep, found) {
    const { source } = scope;
    if (declares.length) return declares;
    const root = source.is(assign - 1, "]") || source.isName(assign - 1) ? rootOf(source, assign - 1) : -1;
    if (root < 0) return [];
    const name = source.value(root);
    const sure = scope.outer(root);
    if (!sure) return [name];
    const plain = root === assign - 1;
    const mentions = source.is(assign, "+=") || self(source, root, assign, to);
    if (plain && scope.declared.has(name)) return [name];
    const computed = source.is(assign - 1, "]") && source.partner[assign - 1] > root;
    // `state[id] = change(state[id], it)`
    if (mentions && found.keeps.some((each) => each.score >= 6 && each.source.value(each.at) !== name)) return [];
    const score = mentions ? 9 : computed ? sure : plain ? 3 : 4;
    const wraps = computed && /%|\brandom\(/.test(source.text.slice(source.starts[root], source.starts[assign]));
    keep(root, Math.min(score, sure), wraps || removes(scope, assign - 1, root));
    return from >= first && plain ? [name] : [];
  }

  // The function of this name in the files that were read: a declaration, an arrow, a method, a class's constructor.
  // `site` is where it is called, if that is not as a method.
  defined(near, name, isNew, site) {
    if (near.near === undefined) near.near = this.imported(near);
    const sources = new Set([near, ...near.near, ...[...this.files.values()].map((each) => each.source)]);
    sources.delete(undefined);
    const isMember = near.isMember(site);
    for (const source of sources) {
      const place = source === near && !isMember ? site : undefined;
      for (const i of source.named(name)) {
        if (isNew) {
          if (!source.is(i - 1, "class")) continue;
          let body = i + 1;
          while (body < source.length && !source.is(body, "{")) body += 1;
          for (let at = body + 1; at < source.partner[body]; at += 1)
            if (source.is(at, "constructor") && source.parent[at] === body) return this.running(source, at + 1, "constructor");
          return undefined;
        }
        const found = this.functionOf(source, i, name, place);
        if (found) return found;
      }
    }
    return isMember ? this.exported(sources, name) : undefined;
  }

  functionOf(source, i, name, place) {
    const isValue = source.is(i + 1, "=") || (source.is(i + 1, ":") && !source.isMember(i));
    const closes = source.is(i + 1, "(") && !source.isMember(i) ? source.partner[i + 1] : -1;
    const isOwn = closes > 0 && source.is(closes + 1, "{") && !source.is(i - 1, "new") && !source.is(i - 1, "get");
    const isVariable = (source.is(i + 1, "=") && !source.isMember(i)) || source.is(i - 1, "function");
    if (place !== undefined && isVariable && !source.isVisible(i, place)) return undefined; // minified code has a name many times
    return (isValue && this.running(source, i + 2, name)) || (isOwn && this.running(source, i + 1, name)) || undefined;
  }

  // The function that a module has for others by this name: `name: () => f`, or a property of that name that returns it.
  exported(sources, name) {
    for (const source of sources) {
      for (let i = 0; i < source.length; i += 1) {
        const isText = source.kinds[i] === VALUE && source.is(i + 1, ",") && source.value(i).slice(1, -1) === name;
        if (!isText && !(source.is(i, name) && source.is(i + 1, ":"))) continue;
        for (let at = i + 1; at < i + 17; at += 1) {
          const isIt = source.isWord(at) && (source.is(at - 1, "=>") || source.is(at - 1, "return")) && !source.is(at + 1, "(");
          const found = isIt && source.named(source.value(at)).map((each) => this.functionOf(source, each, name, at)).find(Boolean);
          if (found) return found;
        }
      }
    }
    return undefined;
  }

  // The function whose parameters begin there, if it ran: the object cannot be in another.
  running(source, i, name) {
    const about = source.functionAt(i);
    if (!about || !this.hasRun(source.file, source.ends[about.last])) return undefined;
    return new Scope(source, { ...about, name: about.name || name });
  }

  // The user's files that a file imports by their relative paths.
  imported(source) {
    const folder = source.file.split("/").slice(0, -1);
    const found = [];
    for (let i = 1; i < source.length; i += 1) {
      if (source.kinds[i] !== VALUE || !/^(?:from|import|\()$/.test(source.value(i - 1))) continue;
      const name = source.value(i).slice(1, -1);
      if (!/^\.\.?\//.test(name)) continue;
      const path = [...folder];
      for (const part of name.split("/")) {
        if (part === "..") path.pop();
        else if (part !== ".") path.push(part);
      }
      for (const ending of ["", ".js", ".cjs", ".mjs", "/index.js"]) {
        const read = this.whole(path.join("/") + ending);
        if (!read) continue;
        found.push(read);
        break;
      }
    }
    return found;
  }

  // After an `await` a stack begins with the function that went on: who awaits it is found by its name.
  byCallers(frame, found) {
    const seen = new Set();
    let level = frame.scope ? [frame.scope] : [];
    for (let doubt = 0.5; level.length && doubt < 3 && !found.some((each) => each.score >= 6.5); doubt += 0.5) {
      const above = [];
      for (const { scope, carrier } of level.flatMap((each) => this.callers(each))) {
        if (seen.has(carrier.from)) continue;
        seen.add(carrier.from);
        const { keeps, returns } = this.followed(scope, [carrier]);
        found.push(...keeps.map((each) => ({ ...each, score: each.score - doubt })));
        if (returns) above.push(scope);
      }
      level = above;
    }
  }

  callers({ source: own, about: { begin, last, name } }) {
    const found = [];
    const outer = own.functionAround(begin - 1);
    if (outer && outer.begin < begin && this.hasRun(own.file, own.ends[outer.last])) found.push({ scope: new Scope(own, outer), carrier: { source: own, from: begin, to: last, doubt: 0 } });
    const plain = String(name || "").replace(/^.*[. ]/, "");
    if (!plain) return found;
    for (const { source } of this.files.values()) {
      if (!source) continue;
      for (const carrier of calling(source, plain, 0, source.length - 1)) {
        const around = source.functionAround(carrier.from);
        if (around && (source !== own || around.begin !== begin) && this.hasRun(source.file, source.ends[around.last])) found.push({ scope: new Scope(source, around), carrier });
      }
    }
    return found;
  }
}

// The place of all of these, if it is one.
function same({ source }, carriers) {
  const [first, ...others] = carriers.map((each) => source.place(each.from));
  return first && others.every(({ key }) => key === first.key) ? first : undefined;
}

// What keeps, if there is one place for it: of several it is not known which.
function theOnly(keeps) {
  const best = keeps.reduce((most, each) => (!most || each.score > most.score ? each : most), undefined);
  if (!best || best.score <= 0) return best && { emptied: best.emptied };
  const least = mayBeSkipped(best) ? 0 : best.score - RIVAL;
  const isRival = ({ score, key, about }) => key !== best.key && score > (about.begin === best.about.begin ? least : best.score - RIVAL);
  return keeps.some(isRival) ? { emptied: false } : best;
}

// Does the file take something out of this container as well?
function removes({ source, declared }, at, root) {
  let owner = source.isMember(at) ? at - 2 : root;
  if (source.is(owner, ")") || source.is(owner, "]")) owner = root;
  const name = source.value(owner);
  if (name === "process") return false;
  for (const i of name === "this" ? [...source.named("this"), ...source.named("super")] : source.named(name)) {
    if (source.is(i - 1, "delete")) return true;
    // A library's cache has a bound.
    if (source.is(i + 1, "=") && source.is(i + 2, "new") && /lru|cache|ttl|pool/i.test(source.value(i + 3))) return true;
    if (!source.is(i + 1, ".") && !source.is(i + 1, "?.")) {
      const isEmptied = source.is(i + 1, "=") && (isEmpty(source, i + 2) || /^(?:null|undefined)$/.test(source.value(i + 2)));
      const around = isEmptied && !declared.has(name) && !DECLARE.has(source.value(i - 1)) && source.functionAround(i);
      if (around && around.name !== "constructor") return true;
      continue;
    }
    const method = source.value(i + 2);
    if (REMOVERS.has(method) && source.is(i + 3, "(")) return true;
    if (method === "length" && source.is(i + 3, "=")) return true;
  }
  return false;
}

// For each of what grows: { file, line, column, name, of, isKnown, stack, emptied }. Places are from 0; `of` is that of
// the function. Not known: the line is the function's. Emptied: something is taken out as well. `hasRun` says whether a
// function ran, by its file and where it ends.
module.exports = (found, readSource, hasRun, memoryKiB) => {
  const deduction = new Deduction(readSource, hasRun, memoryKiB);
  const spot = (frame, { line, column } = frame, isKnown = false) => ({ file: frame.file, line, column, name: frame.name || "(anonymous)", of: frame, isKnown });
  return found.map(({ groups }) => {
    const size = ({ windows }) => windows.subarray(0, windows.length - 1).reduce((sum, each) => sum + each, 0);
    const depth = ({ frames }) => frames.filter((frame) => !frame.library).length;
    const [most] = [...groups].sort((a, b) => depth(b) - depth(a) || size(b) - size(a));
    const { frames, callees } = most;
    const last = frames.filter((frame) => !frame.library).pop() || frames[frames.length - 1];
    let keeper = spot(last);
    let emptied = false;
    const stack = frames.map((frame) => spot(frame));
    try {
      const { best, at, lines } = deduction.place(frames, callees);
      frames.forEach((frame, i) => (stack[i] = spot(frame, lines[i])));
      if (best) emptied = best.emptied;
      keeper = spot(at || last);
      const own = lines[frames.indexOf(last)];
      if (best && best.source) {
        const { source, about, name } = best;
        keeper = { ...spot({ ...source.place(about.at), file: source.file, name: name || last.name }, best, true) };
      } else if (at === last && !best && own.line !== last.line) keeper = spot(last, own, true);
    } catch {
      // a source that is not understood
    }
    return { ...keeper, stack, emptied };
  });
};
