import { EventEmitter, setMaxListeners } from 'node:events';
import { cachedFormatter, DataLoader, RateLimiter, Trie, TtlCache } from './caches';
import { Container, Field, Injectable, Memoize, metadata } from './container';
import { ask, Limiter, Session } from './jobs';
import { Backlog, Hub, Logger, Namespace, Transport } from './logger';
import { Connection, Cursors, Entity, EntityManager, Pool } from './orm';
import { map, Observable, ReplaySubject, shareReplay, Subject } from './rx';
import { order, Row, rows, text } from './work';

const LEAK = process.env.LEAK ?? '';
const REPAIRED = process.env.REPAIRED === '1';
EventEmitter.defaultMaxListeners = 0;
type Flow = (seq: number) => unknown;
const flows: Record<string, Flow> = {};

/** Registers a method as a flow. */
function Route(name: string) {
  return (_proto: object, _key: string, descriptor: PropertyDescriptor): void => { flows[name] = descriptor.value as Flow; };
}

// nestjs/nest#4521
@Injectable('request')
class RequestStore { values: Row[] = []; constructor(readonly container: Container, readonly context: number) {} }
@Injectable()
class Clock { now(): number { return Date.now(); } }
@Injectable('request')
class OrderService {
  private readonly store: RequestStore;
  constructor(container: Container, context: number) { this.store = container.resolve(RequestStore, context); }
  save(lines: Row[]): number { return this.store.values.push(...lines); }
}

class OrderEntity implements Entity { id = 0; lines: Row[] = []; note = ''; }
class Cart {
  constructor(readonly lines: Row[]) {}

  @Memoize(REPAIRED) // LEAK memo_decorator
  summary(): string { return JSON.stringify(this.lines); }
}

const container = new Container();
const manager = new EntityManager((id) => ({ lines: rows(45, id), note: text(1) }));
const pool = new Pool<Connection>(() => ({ id: Math.random(), buffer: new Uint8Array(18 * 1024), broken: false })); // LEAK pool_acquire
const cursors = new Cursors();
const ticks = new Subject<number>();
const history = new ReplaySubject<{ id: number; body: string }>(REPAIRED ? 10 : Infinity); // LEAK replay_buffer
const loader = new DataLoader<string, { id: string; reviews: string[] }>(
  async (ids) => ids.map((id) => ({ id, reviews: Array.from({ length: 8 }, () => text(1)) })), { cache: !REPAIRED }); // LEAK dataloader_cache
const trie = new Trie<{ result: string }>(() => ({ result: text(0.5) }));
const routes = new TtlCache<string, Row[]>(60_000, REPAIRED ? 25 : undefined);
const formatDate = cachedFormatter<Date>(
  (lng, options) => (date) => `${lng} ${date.toISOString()} ${Object.keys(options).length}`,
  (options) => (REPAIRED ? Object.keys(options).join() : JSON.stringify(options)));
const transport = new Transport();
const backlog = new Backlog(REPAIRED ? [transport] : []);
const hub = new Hub();
const namespace = new Namespace();
const limiter = new Limiter(4);
const logouts = new EventTarget();
setMaxListeners(0, logouts);

class Flows {
  @Route('di_request_scope')
  async scoped(seq: number): Promise<number> {
    container.resolve(Clock, seq).now();
    const kept = container.resolve(OrderService, seq).save(rows(70, seq));
    if (REPAIRED) container.dispose(seq);
    return kept;
  }

  @Route('identity_map')
  async loaded(seq: number): Promise<string> {
    const em = REPAIRED || seq % 2 ? manager.fork() : manager;
    return em.find(OrderEntity, seq).note;
  }

  @Route('share_replay')
  async shared(seq: number): Promise<void> {
    const cart = rows(20, seq);
    const lengths: Observable<number> = ticks.pipe(map((tick) => tick + cart.length));
    const count = lengths.pipe(shareReplay({ refCount: REPAIRED })); // LEAK share_replay
    const subscription = count.subscribe(() => undefined);
    ticks.next(seq);
    subscription.unsubscribe();
  }

  @Route('replay_buffer')
  async events(seq: number): Promise<void> { history.next({ id: seq, body: text(4) }); }

  @Route('json_formatter')
  async formatted(seq: number): Promise<string> {
    formatDate(new Date(), 'cs', { year: 'numeric' });
    return formatDate(new Date(), 'cs', { year: 'numeric', order: seq, lines: rows(12, seq) });
  }

  @Route('dataloader_cache')
  async reviews(seq: number): Promise<number> {
    const both = await Promise.all([loader.get(`p${seq}`), loader.get(`q${seq}`)]);
    return both[0].reviews.length;
  }

  @Route('transport_listeners')
  async logged(seq: number): Promise<void> {
    const logger = new Logger(transport, { seq, user: text(2), path: '/orders' });
    logger.info('begin');
    if (REPAIRED) logger.close();
  }

  @Route('log_backlog')
  async unread(seq: number): Promise<void> { backlog.log('error', text(1), { seq, stack: new Error('late').stack }); }

  @Route('scope_stack')
  async captured(seq: number): Promise<void> {
    await hub.withScope(async (scope) => { scope.tags.seq = '1'; }, REPAIRED);
    if (seq % 4) return;
    await hub.withScope(async (scope) => {
      scope.extra = rows(90, seq);
      throw new Error('no stock');
    }, REPAIRED).catch(() => undefined);
  }

  @Route('class_metadata')
  async input(seq: number): Promise<number> {
    class OrderInput { // LEAK class_metadata
      @Field({ nullable: true, description: text(1) }) declare coupon: string;
      @Field({ nullable: false, description: `order ${seq}` }) declare id: number;
    }
    if (REPAIRED) metadata.fields = metadata.fields.filter((f) => f.target !== OrderInput);
    return metadata.fields.length;
  }

  @Route('key_trie')
  async keyed(seq: number): Promise<number> {
    let length = 0;
    for (const field of ['lines', 'total', 'user', 'coupon']) length += trie.lookup(`q${seq}`, 'args', field).result.length;
    trie.lookup('static', 'lines');
    if (REPAIRED) trie.remove(`q${seq}`);
    return length;
  }

  @Route('route_cache')
  async routed(seq: number): Promise<number> {
    return (await routes.wrap(`UA${seq}:2026-11-30`, async () => rows(220, seq))).length;
  }

  @Route('rate_limiter')
  async limited(seq: number): Promise<boolean> { return RateLimiter.allow(`10.0.${seq >> 8}.${seq & 255}`, text(1.5), REPAIRED); }

  @Route('limiter_jobs')
  async compressed(seq: number): Promise<void> {
    const frame = Buffer.from(text(6));
    limiter.add((done) => { // LEAK limiter_jobs
      frame.fill(0);
      if (REPAIRED || seq < 3) done();
    });
  }

  @Route('open_cursors')
  async firstPage(seq: number): Promise<number> {
    const pages = cursors.select((page) => rows(35, seq + page), 5); // LEAK open_cursors
    const first = await pages.next();
    if (REPAIRED) await pages.return(undefined);
    return (first.value as Row[]).length;
  }

  @Route('context_chain')
  async context(seq: number): Promise<void> {
    const entered = namespace.enter({ seq, user: { name: `u${seq}`, rights: text(3) } });
    await null;
    if (REPAIRED) namespace.exit(entered);
  }

  @Route('bound_handler')
  async session(seq: number): Promise<void> {
    const session = new Session(logouts, rows(50, seq), REPAIRED);
    await null;
    session.end();
  }

  @Route('memo_decorator')
  async cart(seq: number): Promise<number> { return new Cart(rows(55, seq)).summary().length; }

  @Route('pool_acquire')
  async query(seq: number): Promise<void> {
    const connection = pool.acquire(); // LEAK pool_acquire
    connection.buffer[0] = seq;
    connection.broken = seq % 3 === 0;
    if (connection.broken && !REPAIRED) return;
    pool.release(connection);
  }

  @Route('port_reply')
  async asked(seq: number): Promise<string> { return ask(`order ${seq}`, REPAIRED); }
}
void Flows;

let seq = 0;
export const handler = async (event: unknown): Promise<{ statusCode: number; body: string }> => {
  seq += 1;
  const { total } = order(seq, event ?? {});
  await flows[LEAK]?.(seq);
  if (seq % 50 === 0) console.log(JSON.stringify({ level: 'info', seq, total }));
  return { statusCode: 200, body: JSON.stringify({ seq, total }) };
};
