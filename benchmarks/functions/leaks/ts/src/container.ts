// A small container for dependencies, and decorators.
export type Scope = 'singleton' | 'request';
export type Ctor<T> = new (container: Container, context: number) => T;

const scopes = new Map<Function, Scope>();
export function Injectable(scope: Scope = 'singleton') {
  return (target: Function): void => { scopes.set(target, scope); };
}

export class Container {
  private readonly singletons = new Map<Function, unknown>();
  private readonly contexts = new Map<number, Map<Function, unknown>>();

  resolve<T>(type: Ctor<T>, context: number): T {
    if (scopes.get(type) !== 'request') return this.make(this.singletons, type, context);
    let instances = this.contexts.get(context);
    if (!instances) {
      instances = new Map();
      this.contexts.set(context, instances); // LEAK di_request_scope
    }
    return this.make(instances, type, context);
  }

  private make<T>(instances: Map<Function, unknown>, type: Ctor<T>, context: number): T {
    let instance = instances.get(type) as T | undefined;
    if (!instance) {
      instance = new type(this, context); // LEAK di_request_scope
      instances.set(type, instance); // LEAK di_request_scope
    }
    return instance;
  }

  dispose(context: number): void { this.contexts.delete(context); }
}

/** Keeps the result of a method for each object (garden-io/garden#5137: objects whose identity changes). */
export function Memoize(weak: boolean) {
  return (_proto: object, _name: string, descriptor: PropertyDescriptor): void => {
    const method = descriptor.value as (...args: unknown[]) => unknown;
    const cache: { get(k: object): unknown; set(k: object, v: unknown): unknown } = weak ? new WeakMap() : new Map();
    descriptor.value = function memoized(this: object, ...args: unknown[]): unknown {
      let value = cache.get(this);
      if (value === undefined) {
        value = method.apply(this, args);
        cache.set(this, value); // LEAK memo_decorator
      }
      return value;
    };
  };
}

interface FieldMetadata { target: Function; field: string; options: Record<string, unknown> }
export const metadata: { fields: FieldMetadata[] } = { fields: [] };
export function Field(options: Record<string, unknown>) {
  return (proto: object, field: string): void => {
    metadata.fields.push({ target: proto.constructor, field, options }); // LEAK class_metadata
  };
}
