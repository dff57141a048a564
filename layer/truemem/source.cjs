// The tokens of a JavaScript source, with brackets and functions: enough to follow a value by. Loaded by lines.cjs.
"use strict";

const { isWide } = require("./maps.cjs");

const NAME = 1;
const VALUE = 2; // a number, a string, text of a template, a regular expression
const SIGN = 3;

const SPACE = /(?:\s+|\/\/[^\n]*|\/\*[^]*?\*\/)+/y;
const WORD = /[#@]?[\p{ID_Start}$_][\p{ID_Continue}$\u200c\u200d]*/uy;
const NUMBER = /0[xXbBoO][\da-fA-F_]+n?|(?:\d[\d_]*\.?[\d_]*|\.\d[\d_]*)(?:[eE][+-]?\d+)?n?/y;
const STRING = /"(?:[^"\\\n]+|\\[^])*"|'(?:[^'\\\n]+|\\[^])*'/y;
const PATTERN = /\/(?:[^\\/[\n]|\\.|\[(?:[^\]\\\n]|\\.)*\])+\/[a-z]*/y;
const TEXT = /(?:[^`\\$]+|\\[^]|\$(?!\{))+/y;
const SIGNS = /=>|\.\.\.|\?\.(?!\d)|(?:\*\*|<<|>>>?|&&|\|\||\?\?|[-+*/%&|^])=|[=!]==?|[<>]=|&&|\|\||\?\?|\+\+|--|[^]/y;
const ASSIGN = /^(?:=|\*\*=|<<=|>>>?=|&&=|\|\|=|\?\?=|[-+*/%&|^]=)$/;

const BRANCH = /^(?:if|else|switch|case|catch|&&|\|\||\?\??)$/;

const words = (text) => new Set(text.split(" "));
// After them an expression begins.
const BEFORE = words("return typeof case in of delete void throw new else do yield await instanceof extends default");
const DECLARE = words("const let var");
const CONTROL = words("if for while switch catch with");
const OTHERS = words("async function class get set static import export from as break continue debugger");

class Source {
  constructor(file, text, begin, end) {
    this.file = file;
    this.text = text;
    this.length = 0;
    this.grow(1024 + ((end - begin) >> 2));
    this.read(begin, end);
  }

  // Outside of the heap, and small: the function's memory is scarce.
  grow(size) {
    const larger = (Kind, old) => {
      const made = new Kind(size);
      if (old) made.set(old);
      return made;
    };
    this.kinds = larger(Uint8Array, this.kinds);
    this.starts = larger(Int32Array, this.starts);
    this.ends = larger(Int32Array, this.ends);
    this.partner = larger(Int32Array, this.partner); // of a bracket
    this.parent = larger(Int32Array, this.parent); // the bracket that is open
  }

  read(begin, end) {
    const { text } = this;
    const open = [];
    const take = (pattern, at) => {
      pattern.lastIndex = at;
      return pattern.test(text) ? pattern.lastIndex : at;
    };
    const token = (kind, from, to) => {
      const i = this.length;
      if (i === this.kinds.length) this.grow(2 * i);
      this.kinds[i] = kind;
      this.starts[i] = from;
      this.ends[i] = to;
      this.partner[i] = -1;
      this.parent[i] = open.length ? open[open.length - 1] : -1;
      this.length += 1;
      return i;
    };
    const close = (index) => {
      const first = open.pop();
      if (first === undefined) return;
      this.partner[first] = index;
      this.partner[index] = first;
      this.parent[index] = this.parent[first];
    };
    let at = begin;
    const template = () => {
      const after = take(TEXT, at);
      if (after > at) token(VALUE, at, after);
      at = after;
      if (text[at] === "`") close(token(SIGN, at, (at += 1)));
      else if (at < end) open.push(token(SIGN, at, (at += 2)));
    };
    for (;;) {
      at = take(SPACE, at);
      if (at >= end) return;
      const last = this.length - 1;
      const c = text[at];
      let after;
      if ((after = take(WORD, at)) > at) token(NAME, at, after);
      else if ((after = take(NUMBER, at)) > at) token(VALUE, at, after);
      else if ((c === '"' || c === "'") && (after = take(STRING, at)) > at) token(VALUE, at, after);
      else if (c === "/" && !this.endsOperand(last) && (after = take(PATTERN, at)) > at) token(VALUE, at, after);
      else if (c === "`") {
        open.push(token(SIGN, at, (at += 1)));
        template();
        continue;
      } else {
        after = take(SIGNS, at);
        const index = token(SIGN, at, after);
        if (c === "(" || c === "[" || c === "{") open.push(index);
        else if (c === ")" || c === "]") close(index);
        else if (c === "}") {
          const inTemplate = open.length && this.is(open[open.length - 1], "${");
          close(index);
          at = after;
          if (inTemplate) template();
          continue;
        }
      }
      at = after;
    }
  }

  // The tokens that are this name, from one to another.
  named(name, first = 0, last = this.length - 1) {
    if (!this.names) {
      this.names = new Map();
      for (let i = 0; i < this.length; i += 1) {
        if (!this.isName(i)) continue;
        const value = this.value(i);
        if (this.names.has(value)) this.names.get(value).push(i);
        else this.names.set(value, [i]);
      }
    }
    return (this.names.get(name) || []).filter((i) => i >= first && i <= last);
  }

  value(i) {
    return i >= 0 && i < this.length ? this.text.slice(this.starts[i], this.ends[i]) : "";
  }

  // Is what is declared there known at a place?
  isVisible(i, place) {
    let open = place;
    while (open >= 0 && open !== this.parent[i]) open = this.parent[open];
    return open === this.parent[i];
  }

  is(i, text) {
    return i >= 0 && this.ends[i] - this.starts[i] === text.length && this.text.startsWith(text, this.starts[i]);
  }

  isName(i) {
    return this.kinds[i] === NAME;
  }

  isWord(i) {
    const value = this.isName(i) ? this.value(i) : "";
    return value !== "" && !BEFORE.has(value) && !DECLARE.has(value) && !CONTROL.has(value) && !OTHERS.has(value);
  }

  // Can an operand end with this token? Then `(` calls, `[` is an index, `/` divides.
  endsOperand(i) {
    if (i < 0) return false;
    if (this.kinds[i] === NAME) return this.isMember(i) || this.isWord(i);
    if (this.kinds[i] === VALUE) return true;
    return this.is(i, ")") || this.is(i, "]") || this.is(i, "}") || (this.is(i, "`") && this.partner[i] < i);
  }

  isMember(i) {
    return this.is(i - 1, ".") || this.is(i - 1, "?.");
  }

  // { line, column, key } of a token, from 0. Two of one key are on the same line, and in minified code the same.
  place(i) {
    let [line, begin] = [0, 0];
    const to = this.starts[i];
    for (let at = this.text.indexOf("\n"); at >= 0 && at < to; at = this.text.indexOf("\n", at + 1)) [line, begin] = [line + 1, at + 1];
    return { line, column: to - begin, key: isWide(this.text, begin) ? -to : line };
  }

  // The token that begins at a place or after it.
  at(place) {
    let [low, high] = [0, this.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.starts[middle] < place) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  // The function whose parameters, or `async`, `function`, begin with this token: { name, begin, first, last, parameters, isConstructor }.
  // Its body is from `first` to `last`.
  functionAt(i) {
    let at = i;
    while (this.is(at, "async") || this.is(at, "function") || this.is(at, "*")) at += 1;
    if (this.isName(at) && this.is(at + 1, "(")) at += 1;
    const closes = this.is(at, "(") ? this.partner[at] : at;
    if (closes < 0 || (closes === at && !this.isName(at))) return undefined;
    const arrow = this.is(closes + 1, "=>");
    const first = closes + 1 + (arrow ? 1 : 0);
    if (!arrow && !this.is(first, "{")) return undefined;
    const last = this.is(first, "{") ? this.partner[first] : this.endOfExpression(first);
    let begin = at;
    while (begin > 0 && /^(?:async|function|\*|get|set|static)$/.test(this.value(begin - 1))) begin -= 1;
    let name = "";
    if (!arrow && this.isName(at - 1) && !OTHERS.has(this.value(at - 1))) {
      name = this.value(at - 1);
      begin = at - 1;
      while (begin > 0 && /^(?:async|function|\*|get|set|static)$/.test(this.value(begin - 1))) begin -= 1;
    } else if (this.is(begin - 1, "=") || this.is(begin - 1, ":")) name = this.value(begin - 2);
    return { begin, at, closes, first, last: last < 0 ? this.length - 1 : last, name, arrow };
  }

  endOfExpression(first) {
    let i = first;
    for (; i < this.length; i += 1) {
      if (this.is(i, ",") || this.is(i, ";") || this.is(i, ")") || this.is(i, "]") || this.is(i, "}")) return i - 1;
      if (i > first && this.isBoundary(i - 1)) return i - 1;
      if (this.partner[i] > i) i = this.partner[i];
    }
    return i - 1;
  }

  // Does a statement end between this token and the next?
  isBoundary(i) {
    if (!this.endsOperand(i)) return this.is(i, "else") || this.is(i, "do");
    const next = i + 1;
    const begins = this.kinds[next] === NAME || this.kinds[next] === VALUE;
    return begins && !/^(?:in|of|instanceof|as|from)$/.test(this.value(next));
  }

  // The innermost function around a token, undefined if there is none.
  functionAround(i) {
    let around = i;
    for (;;) {
      const open = this.parent[around];
      for (let at = around - 1; at > open; at -= 1) {
        if (this.partner[at] >= 0 && this.partner[at] < at) {
          if (this.is(at, "}") && this.isBoundary(at)) break;
          at = this.partner[at];
          continue;
        }
        if (this.is(at, ",") || this.is(at, ";")) break;
        if (!this.is(at, "=>")) continue;
        const found = this.functionAt(this.is(at - 1, ")") ? this.partner[at - 1] : at - 1);
        if (found && found.last >= i) return found;
      }
      if (open < 0) return undefined;
      const found = this.is(open, "{") ? this.functionOfBody(open) : undefined;
      if (found) return found;
      around = open;
    }
  }

  functionOfBody(open) {
    if (this.is(open - 1, "=>")) return this.functionAt(this.is(open - 2, ")") ? this.partner[open - 2] : open - 2);
    if (!this.is(open - 1, ")")) return undefined;
    const at = this.partner[open - 1];
    if (at <= 0 || CONTROL.has(this.value(at - 1)) || this.is(at - 1, "await")) return undefined;
    return this.functionAt(at);
  }
}

// Of an argument in its call.
function position(source, open, from) {
  let at = 0;
  for (let i = open + 1; i < from; i += 1) {
    if (source.partner[i] > i && source.partner[i] < from) i = source.partner[i];
    else if (source.is(i, ",") && source.parent[i] === open) at += 1;
  }
  return at;
}

function parameterAt({ source, about }, position) {
  let at = 0;
  if (about.at === about.closes) return position ? undefined : source.value(about.at);
  for (let i = about.at + 1; i < about.closes; i += 1) {
    if (source.is(i, "...")) return source.value(i + 1);
    if (at === position) return source.isName(i) ? source.value(i) : undefined;
    if (source.partner[i] > i) i = source.partner[i];
    else if (source.is(i, ",")) at += 1;
  }
  return undefined;
}

// First token of `a.b(c).d`, by its last one.
function rootOf(source, last) {
  let i = last;
  for (;;) {
    while (source.partner[i] >= 0 && source.partner[i] < i && !source.is(i, "}")) {
      const open = source.partner[i];
      if (!source.endsOperand(open - 1)) return open;
      i = open - 1;
    }
    if (source.is(i - 1, ".") || source.is(i - 1, "?.")) i -= 2;
    else return i;
  }
}

// Last token of `a.b(c).d`, by its first one.
function endOfChain(source, first) {
  let i = first;
  for (;;) {
    if (source.is(i + 1, ".") || source.is(i + 1, "?.")) i += 2;
    else if ((source.is(i + 1, "(") || source.is(i + 1, "[")) && source.partner[i + 1] > i) i = source.partner[i + 1];
    else return i;
  }
}

function calling(source, name, first, last) {
  const found = [];
  for (const i of source.named(name, first, last)) {
    let open = source.is(i + 1, "?.") ? i + 2 : i + 1;
    if (source.is(open, ")") && calleeOf(source, open + 1) === i) open += 1;
    if (!source.is(open, "(") || source.is(i - 1, "function") || source.is(source.partner[open] + 1, "{")) continue;
    const root = rootOf(source, open - 1);
    found.push({ source, from: source.is(root - 1, "new") ? root - 1 : root, to: source.partner[open], doubt: 0, at: i });
  }
  return found;
}

// Last token of what a call calls: of `b` in `a.b(`, and in `(0, a.b)(`, as compilers write it for an import.
function calleeOf(source, open) {
  const first = source.is(open - 1, ")") ? source.partner[open - 1] : -1;
  return first >= 0 && source.is(first + 1, "0") && source.is(first + 2, ",") ? open - 2 : open - 1;
}

// Where a name of a variable is used in a function, but not as a member's or a property's.
function uses({ source, about }, name, first) {
  const found = [];
  for (const i of source.named(name, first, about.last)) {
    if (source.isMember(i)) continue;
    if (source.is(i + 1, ":") && !source.is(i - 1, "?")) continue;
    if (DECLARE.has(source.value(i - 1))) continue;
    found.push(i);
  }
  return found;
}

function isLiteral(source, open) {
  const before = open - 1;
  if (before < 0 || source.is(before, "=>")) return false;
  if (source.kinds[before] === NAME) return /^(?:return|yield|await|of|in|case|typeof|default)$/.test(source.value(before));
  return /^(?:[([,:?]|\.\.\.|&&|\|\||\?\?|.*=)$/.test(source.value(before)) || source.is(before, "${");
}

// `[]`, `{}`, `new Map()`: small as long as nothing is put into it.
function isEmpty(source, i) {
  if (source.is(i, "new")) return source.is(i + 2, "(") && source.partner[i + 2] === i + 3 && /^(?:Map|Set|Array|Object)$/.test(source.value(i + 1));
  return (source.is(i, "[") && !source.endsOperand(i - 1) && source.partner[i] === i + 1) || (source.is(i, "{") && source.partner[i] === i + 1 && isLiteral(source, i));
}

// What is before a value in its expression: an assignment, `return`, an arrow.
function leftOf(source, from, about) {
  const left = { assign: -1, arrow: -1, returns: false, declares: [], first: from };
  const open = source.parent[from];
  let at = from - 1;
  for (; at > open && at >= about.first; at -= 1) {
    const value = source.value(at);
    if (source.isBoundary(at) || value === "," || value === ";") break;
    if (source.partner[at] >= 0 && source.partner[at] < at) {
      at = source.partner[at];
      continue;
    }
    if (value === "=>") {
      left.arrow = at;
      return left;
    }
    if (source.kinds[at] === SIGN && ASSIGN.test(value)) left.assign = at;
    if (source.kinds[at] === NAME && !source.isMember(at) && /^(?:return|yield|throw)$/.test(value)) {
      left.returns = left.assign < 0;
      if (left.returns) return left;
      break;
    }
    if (DECLARE.has(value)) {
      const end = left.assign >= 0 ? left.assign : from;
      for (let i = at + 1; i < end; i += 1)
        if (source.isWord(i) && !source.isMember(i) && !source.is(i + 1, ":")) left.declares.push(source.value(i));
      break;
    }
  }
  left.first = at + 1;
  // `const a = 1, b = it`
  if (left.assign >= 0 && !left.declares.length && source.value(at) === "," && source.isName(left.assign - 1)) {
    for (let i = at; i > open; i -= 1) {
      if (source.partner[i] >= 0 && source.partner[i] < i) i = source.partner[i];
      else if (source.is(i, ";")) break;
      else if (DECLARE.has(source.value(i))) left.declares.push(source.value(left.assign - 1));
    }
  }
  return left;
}

// What a call throws is in the variable of the `catch` around it.
function caught(source, open, about) {
  for (let block = open; block >= about.first; block = source.parent[block]) {
    const after = source.partner[block] + 1;
    if (source.is(block - 1, "try") && source.is(after, "catch") && source.isName(after + 2)) return [source.value(after + 2)];
  }
  return [];
}

// Then any other place in its function that was given the object may be the one.
function mayBeSkipped({ source, at, about }) {
  for (let i = at - 1; i > about.first; i -= 1) {
    if (BRANCH.test(source.value(i))) return true;
    if (source.is(i, ";") || (source.is(i, "}") && source.isBoundary(i))) i = source.parent[i];
    else if (source.partner[i] >= 0 && source.partner[i] < i) i = source.partner[i];
  }
  return false;
}

// Is what is assigned made of what was there? `list = [...list, it]`
function self(source, root, assign, to) {
  const text = source.text.slice(source.starts[root], source.ends[assign - 1]);
  const end = source.endOfExpression(assign + 1);
  for (let i = assign + 1; i <= Math.max(end, to); i += 1)
    if (source.text.startsWith(text, source.starts[i]) && source.starts[i] + text.length >= source.ends[i]) return true;
  return false;
}

module.exports = { CONTROL, DECLARE, Source, VALUE, words };
Object.assign(module.exports, { calleeOf, calling, caught, endOfChain, isEmpty, isLiteral, leftOf, mayBeSkipped, parameterAt, position, rootOf, self, uses });
