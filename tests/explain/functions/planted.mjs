// Leaks of one kind each. The line that keeps is marked with its handler's name.
import { EventEmitter } from "node:events";

import { Store, busy, remember } from "./order_book.mjs";

const ORDERS = [];
const bySession = new Map();
const seen = new Set();
const state = { orders: {} };
const callbacks = [];
const emitter = new EventEmitter().setMaxListeners(0);
const store = new Store();
const recent = new Map();
const pending = [];
const shutdown = new Promise(() => {});
const sizes = new WeakMap();
const target = new Proxy([], {
  get(object, name) {
    return Reflect.get(object, name);
  },
});
let chain = null;
let copied = [];
let text = "";
let count = 0;

const body = () => ({ order: ++count, data: new Array(1000).fill(count) });

export async function list() {
  const order = body();
  order.known = true;
  ORDERS.push(order); // list
}

export async function map() {
  const order = body();
  bySession.set(order.order, order); // map
}

export async function set() {
  const order = body();
  seen.add(order); // set
}

export async function members() {
  const order = body();
  state.orders[`order-${order.order}`] = order; // members
}

export async function instance() {
  store.put(++count, body());
}

export async function closure() {
  const order = body();
  callbacks.push(() => order.order); // closure
}

export async function listener() {
  const order = body();
  emitter.on("saved", () => order.order); // listener
}

export async function timer() {
  const order = body();
  setInterval(() => order.order, 3_600_000).unref(); // timer
}

export async function linked() {
  const order = body();
  chain = { after: chain, order }; // linked
}

export async function copy() {
  const order = body();
  copied = [...copied, order]; // copy
}

export async function nested() {
  copied = [...copied, body()]; // nested
}

function local() {
  let copied = [];
  for (let number = 0; number < 20; number++) copied = [...copied, number];
  return copied.length;
}

export async function samename() {
  busy();
  local();
  copied = [...copied, body()]; // samename
  local();
  busy();
}

export async function undone() {
  for (let number = 0; number < 20; number++) ORDERS.push(number);
  ORDERS.splice(-20);
  ORDERS.push(body()); // undone
}

export async function weak() {
  const key = { order: ++count };
  sizes.set(key, new Array(1000).fill(count));
  seen.add(key); // weak
}

export async function proxied() {
  Array.prototype.push.call(target, body()); // proxied
}

export async function frozen() {
  Object.freeze(Error);
  ORDERS.push(body()); // frozen
}

export async function buffers() {
  const data = Buffer.alloc(8000, 1);
  ORDERS.push(data); // buffers
}

export async function promises() {
  const order = body();
  await Promise.race([Promise.resolve(), new Promise((resolve) => pending.push(() => resolve(order)))]); // promises
}

export async function race() {
  const order = body();
  await Promise.race([Promise.resolve(order), shutdown]); // race
}

export async function executor() {
  await new Promise((resolve) => {
    ORDERS.push(body()); // executor
    resolve();
  });
}

export async function module() {
  remember(++count, body());
}

export async function strings() {
  const line = Buffer.alloc(8000, 97 + (++count % 26)).toString("latin1");
  text += line; // strings
}

export async function bounded() {
  recent.set(++count, body());
  if (recent.size > 50) recent.delete(recent.keys().next().value);
}

export async function steady() {
  return body().order;
}

export async function raises() {
  await list();
  throw new RangeError("no such order");
}

export async function ends() {
  await list();
  if (count % 150 === 149) process.exit(1);
}

export async function hangsEarly() {
  await list();
  if (count > 65) await new Promise(() => setInterval(() => 1, 1000));
}

export async function hangs() {
  await list();
  if (count > 120) await new Promise(() => setInterval(() => 1, 1000));
}
