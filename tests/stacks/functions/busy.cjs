// A stack that moves all the time, of all kinds of code. What calls or takes memory is marked: `calls` or `takes`, and
// no other line of a function can be seen.
"use strict";
const held = [];
const keep = (what, at) => {
  held[at % 5000] = what;
  return what;
};
function objects(n) {
  let sum = 0;
  for (let i = 0; i < 50; i += 1) {
    sum += i * n;
    const each = { sum, list: [i, sum], text: `x${i}` }; // takes
    sum += each.list.length;
  }
  return sum;
}
function strings(n) {
  let text = "";
  const at = n & 7;
  for (let i = 0; i < 30; i += 1) text += String.fromCharCode(97 + i) + at; // takes
  return text.split("b").length; // takes
}
function arrays(n) {
  const all = []; // takes
  const most = 200 + (n & 15);
  for (let i = 0; i < most; i += 1)
    all.push(i * 1.5); // takes
  return all.map((each) => each + n).length; // takes calls
}
function buffers(n) {
  const size = 20_000 + n;
  return Buffer.alloc(size).length; // takes calls
}
function maps(n) {
  const map = new Map(); // takes
  for (let i = 0; i < 60; i += 1)
    map.set(`k${i}`, n); // takes
  return map.size;
}
function* numbers(n) { // takes
  for (let i = 0; i < 5; i += 1) {
    const square = i * i + n;
    yield [square, objects(square)]; // takes calls
  }
}
class Point {
  constructor(x) {
    this.x = x;
    this.y = strings(x); // calls
  }
  get both() {
    return [this.x, this.y]; // takes
  }
}
function revived(n) {
  const text = '{"a":[1,2,3],"b":{"c":1}}';
  return JSON.parse(text, (key, value) => { // takes calls
    const twice = n * 2;
    return value === 1 ? arrays(twice) : value; // calls
  });
}
function sorted(n) {
  const all = [5, 3, 1, n]; // takes
  all.sort((a, b) => { // takes calls
    const by = a - b;
    maps(by); // calls
    return by;
  });
  return all;
}
function deep(n) {
  if (n <= 0) return new Point(n).both; // takes calls
  const less = n - 1;
  return deep(less); // calls
}
function tried(n) {
  try {
    const bad = n * 3;
    throw new Error(`no ${bad}`); // takes
  } catch {
    return buffers(n); // calls
  }
}
const made = new Function("n", "const more = n + 1;\nreturn [more, {more}]; // takes");
function one(n) {
  const less = n % 40;
  keep([...numbers(less)], n); // takes calls
  keep(new Point(less), n + 1); // takes calls
  keep(revived(less), n + 2); // calls
  keep(sorted(less), n + 3); // calls
  keep(deep(less), n + 4); // calls
  keep(tried(less), n + 5); // calls
  keep(made(less), n + 6); // calls
}
async function later(n) { // takes
  const more = n + 1;
  await null; // takes
  one(more); // calls
}
async function main() { // takes
  process.stdout.write("ready\n");
  for (let n = 0; ; n += 1) {
    one(n); // calls
    await later(n); // takes calls
    if (n % 100 === 0) await new Promise(setImmediate); // takes calls
  }
}
main(); // calls
