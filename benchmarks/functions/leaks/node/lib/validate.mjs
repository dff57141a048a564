// ajv-validator/ajv#2134: compiled schemas are kept by the schema object
export class Validator {
  constructor(cache) { this.cache = cache; }

  compile(schema) {
    const known = this.cache.get(schema);
    if (known) return known;
    const checks = Object.entries(schema).map(([k, t]) => `if (typeof o.${k} !== '${t}') e.push('${k}');`);
    const check = new Function('o', `const e = []; ${checks.join('\n')} return e;`); // LEAK schema_cache
    this.cache.set(schema, check); // LEAK schema_cache
    return check;
  }
}
