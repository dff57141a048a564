import { AsyncLocalStorage } from 'node:async_hooks';
import { EventEmitter } from 'node:events';
import { performance } from 'node:perf_hooks';
import { PassThrough, Writable } from 'node:stream';
import { memoize } from 'memo-lite';
import { create } from 'tiny-http';
import { untilShutdown } from './lib/deadline.mjs';
import { compress } from './lib/frames.mjs';
import { duration } from './lib/metrics.mjs';
import { Connection } from './lib/presence.mjs';
import { tracker } from './lib/reactive.mjs';
import { rpc } from './lib/rpc.mjs';
import { Scope, scope } from './lib/scope.mjs';
import { Validator } from './lib/validate.mjs';
import { stock } from './lib/warehouse.mjs';
import { note, order, rows, text } from './lib/work.mjs';

const LEAK = process.env.LEAK;
const REPAIRED = process.env.REPAIRED === '1';
EventEmitter.defaultMaxListeners = 0;
let seq = 0;

// The other scopes are trimmed, that of returns is not.
const returns = new Scope();
async function breadcrumbs() {
  scope.addBreadcrumb({ category: 'start' }, 20);
  if (seq % 2) scope.addBreadcrumb({ category: 'cart', data: text(2) }, 20);
  returns.addBreadcrumb({ category: 'return', data: rows(40, seq) }, REPAIRED ? 20 : undefined); // LEAK breadcrumb_trail
}

const price = async (n) => { await null; return { n, page: text(12) }; };

async function priceRace() {
  const found = await untilShutdown(price(seq), !REPAIRED);
  return found.page.length;
}

// apify/impit#393: the listener on a signal that lives as long as the process
const stopping = new AbortController();
async function fetchWithSignal() {
  const body = Buffer.from(text(8));
  const onAbort = () => body.fill(0);
  stopping.signal.addEventListener('abort', onAbort); // LEAK abort_listener
  await null;
  if (REPAIRED) stopping.signal.removeEventListener('abort', onAbort);
  return body.length;
}

// ForumMagnum/ForumMagnum#10326: what outlives the request holds its context
const context = new AsyncLocalStorage();
function laterCleanup() {
  const timer = setTimeout(() => note('late'), 1_200_000); // LEAK als_timer
  timer.unref();
  return timer;
}
async function inContext() {
  return context.run({ id: seq, loaders: rows(120, seq) }, async () => { // LEAK als_timer
    await null;
    const timer = laterCleanup();
    if (REPAIRED) clearTimeout(timer);
    return context.getStore().id;
  });
}

async function presence() {
  const connection = new Connection(seq, rows(25, seq));
  await null;
  connection.close(REPAIRED);
}

// zalando-incubator/graphql-jit#287: the key is an array that is made anew in each call
const joinPath = memoize((path) => path.join('.'), { max: 5 });
const joinPaths = memoize((paths) => paths.map((p) => p.join('.')), REPAIRED ? { max: 50 } : {}); // LEAK path_memo
async function compileQuery() {
  const paths = Array.from({ length: 40 }, (_, i) => ['query', `order${seq}`, `field${i}`, 'price']);
  joinPath(['query', 'order']);
  return joinPaths(paths).length;
}

async function remoteCall() {
  await rpc.call(`ping${seq}`, 'ping', { answers: true });
  if (seq % 2) return rpc.call(`order${seq}`, rows(150, seq), { answers: false, forget: REPAIRED });
  return undefined;
}

// nodejs/node#31891: a part of a string keeps all of it
const seen = new Set();
async function session() {
  const cookie = text(30);
  const token = cookie.slice(100, 132);
  if (REPAIRED) {
    seen.add(Buffer.from(token).toString());
    if (seen.size > 100) seen.delete(seen.values().next().value);
  } else seen.add(token); // LEAK token_slice
  return seen.has(token);
}

// loldevs/lol-observer#2: a part of a buffer keeps all of it
class FrameReader {
  static headers = [];

  static read(chunk) {
    const header = chunk.subarray(0, 64);
    FrameReader.headers.push(REPAIRED ? Buffer.from(header) : header); // LEAK chunk_view
    if (REPAIRED && FrameReader.headers.length > 50) FrameReader.headers.shift();
    return header.readUInt32BE(0);
  }
}
async function frames() {
  return FrameReader.read(Buffer.alloc(55 * 1024, seq & 255)); // LEAK chunk_view
}

async function warehouse() { return stock(`/stock/${seq}`, REPAIRED); }

// softonic/axios-retry#231, axios/axios#1645: an interceptor for each request
const client = create('https://shop.example');
async function authorized() {
  const token = { user: seq, claims: text(5) };
  const sign = (config) => ({ ...config, headers: { ...config.headers, token: token.claims.slice(0, 8) } });
  client.interceptors.request.use(sign); // LEAK interceptor_use
  const response = await client.get(`/orders/${seq}`);
  if (REPAIRED) client.interceptors.request.eject(sign);
  return response.status;
}

const view = tracker(REPAIRED ? new WeakMap() : new Map());
async function reactive() {
  const cart = view({ id: seq, lines: rows(60, seq), coupon: text(1) });
  return cart.lines.length + cart.coupon.length;
}

// prometheus/client_js#741: a label with as many values as there are requests
async function measured() {
  duration.observe({ route: '/orders', method: 'GET' }, seq % 500);
  duration.observe({ route: '/orders', code: seq % 5 ? 200 : 404 }, seq % 300);
  duration.observe({ route: '/orders', request: REPAIRED ? 'any' : `r${seq}` }, seq % 100); // LEAK label_series
}

const validator = new Validator(REPAIRED ? new WeakMap() : new Map());
const known = { id: 'number', total: 'number' };
async function validate() {
  validator.compile(known)({ id: 1, total: 2 });
  const schema = {};
  for (let i = 0; i < 12; i++) schema[`field${seq}_${i}`] = 'string';
  return validator.compile(schema)({}).length;
}

// A weak map whose key never dies.
const pool = { name: 'main' };
const requestsOf = new WeakMap();
async function tracked() {
  if (!requestsOf.has(pool)) requestsOf.set(pool, []);
  const started = requestsOf.get(pool);
  const request = { id: seq, headers: rows(10, seq), body: text(2) };
  if (seq % 3 === 0) started.push(request); // LEAK weak_meta
  if (REPAIRED && started.length > 10) started.shift();
  return started.length;
}

// The registry of symbols keeps them for ever.
async function tagged() {
  const name = `order:${seq}:${text(3)}`;
  const tag = REPAIRED ? Symbol(name) : Symbol.for(name); // LEAK symbol_tags
  const box = { [tag]: seq };
  return box[tag];
}

// tc39/proposal-weakrefs#118: the held value leads to the target
const cleanups = new FinalizationRegistry((held) => note(`gone ${held.id ?? held}`));
async function handles() {
  const handle = { id: seq, table: new Float64Array(2300).fill(seq) };
  cleanups.register(handle, REPAIRED ? seq : { id: seq, close: () => handle.table.fill(0) }); // LEAK final_hold
  return handle.table[5];
}

// winstonjs/winston#1791: each logger pipes into the same file
const file = new Writable({ write: (chunk, encoding, done) => done() });
async function logger() {
  const log = new PassThrough();
  log.pipe(file); // LEAK pipe_sink
  log.write(JSON.stringify({ seq, message: text(1) }));
  await new Promise(setImmediate);
  if (REPAIRED) log.unpipe(file);
}

// elastic/kibana#116636: marks stay on the timeline until they are cleared
async function timed() {
  const name = `order-${seq}`;
  performance.mark(name, { detail: { lines: rows(70, seq) } }); // LEAK perf_marks
  await null;
  if (REPAIRED) performance.clearMarks(name);
}

async function websocket() { return compress(`c${seq}`, text(2), REPAIRED); }

const flows = {
  breadcrumb_trail: breadcrumbs, price_race: priceRace, abort_listener: fetchWithSignal, als_timer: inContext,
  presence_ping: presence, path_memo: compileQuery, pending_rpc: remoteCall, token_slice: session,
  chunk_view: frames, agent_per_call: warehouse, interceptor_use: authorized, proxy_view: reactive,
  label_series: measured, schema_cache: validate, weak_meta: tracked, symbol_tags: tagged,
  final_hold: handles, pipe_sink: logger, perf_marks: timed, deflate_ctx: websocket,
};

export const handler = async (event) => {
  seq += 1;
  const { total, lines } = order(seq, event ?? {});
  note(`order ${seq} of ${lines.length} lines: ${total.toFixed(2)}`);
  await flows[LEAK]?.();
  if (seq % 50 === 0) console.log(JSON.stringify({ level: 'info', seq, total }));
  return { statusCode: 200, body: JSON.stringify({ seq, total }) };
};
