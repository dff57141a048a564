// Checks an order against a schema that comes with the request.
import Ajv from "ajv";

const ajv = new Ajv.default();
const validators = new Map();
const text = JSON.stringify({
  type: "object",
  required: ["id", "lines"],
  properties: {
    id: { type: "string", maxLength: 20 },
    lines: { type: "array", items: { type: "object", properties: { count: { type: "integer", minimum: 1 } } } },
  },
});

export async function handler() {
  const validate = validators.get(text) ?? ajv.compile(JSON.parse(text));
  validators.set(text, validate);
  return validate({ id: "a-1", lines: [{ count: 2 }, { count: 3 }] });
}
