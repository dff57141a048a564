export interface Entity { id: number }
export type EntityType<T extends Entity> = new () => T;

/** mikro-orm/mikro-orm#5308: the global manager keeps all that was loaded. */
export class EntityManager {
  private identityMap = new Map<Function, Map<number, Entity>>();

  constructor(private readonly fetch: (id: number) => object) {}

  fork(): EntityManager { return new EntityManager(this.fetch); }

  find<T extends Entity>(type: EntityType<T>, id: number): T {
    const known = this.identityMap.get(type)?.get(id);
    if (known) return known as T;
    return this.merge(type, Object.assign(new type(), this.fetch(id), { id })); // LEAK identity_map
  }

  private merge<T extends Entity>(type: EntityType<T>, entity: T): T {
    let known = this.identityMap.get(type);
    if (!known) this.identityMap.set(type, known = new Map());
    known.set(entity.id, entity); // LEAK identity_map
    return entity;
  }
}

export interface Connection { id: number; buffer: Uint8Array; broken: boolean }

/** Connections that are taken and given back. */
export class Pool<T extends Connection> {
  private readonly idle: T[] = [];
  private readonly all = new Set<T>();

  constructor(private readonly factory: () => T) {}

  acquire(): T {
    const free = this.idle.pop();
    if (free) return free;
    const made = this.factory();
    this.all.add(made); // LEAK pool_acquire
    return made;
  }

  release(connection: T): void { this.idle.push(connection); }
}

/** Rows in parts; a cursor that is not read to its end must be returned. */
export class Cursors {
  private readonly open = new Set<{ page: object[] }>();

  async* select<T extends object>(fetch: (page: number) => T[], pages: number): AsyncGenerator<T[]> {
    const cursor: { page: object[] } = { page: [] };
    this.open.add(cursor); // LEAK open_cursors
    try {
      for (let i = 0; i < pages; i++) {
        const page = fetch(i);
        cursor.page = page;
        yield page;
      }
    } finally {
      this.open.delete(cursor);
    }
  }
}
