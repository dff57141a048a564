var __defProp = Object.defineProperty;
var __getOwnPropNames = Object.getOwnPropertyNames;
var __export = (target, all) => { for (var name in all) __defProp(target, name, { get: all[name], enumerable: true }); };
var __copyProps = (to, from) => { for (let key of __getOwnPropNames(from)) if (key !== "default") __defProp(to, key, { get: () => from[key], enumerable: true }); return to; };
var __toCommonJS = (mod) => __copyProps(__defProp({}, "__esModule", { value: true }), mod);

// src/handler.ts
var handler_exports = {};
__export(handler_exports, { handler: () => handler });
module.exports = __toCommonJS(handler_exports);

// src/templates.ts
var templates = /* @__PURE__ */ new Map();
function compile(source) {
  const parts = source.split("{{");
  const render = (data) => parts.map((p) => p.replace(/^(\w+)\}\}/, (_, k) => data[k] ?? "")).join("");
  return render;
}
function render(source, data) {
  let template = templates.get(source);
  if (!template) {
    template = compile(source);
    templates.set(source, template); // leak
  }
  return template(data);
}

// src/handler.ts
var handler = async (event) => {
  const html = render(`<p>${event.n}</p>` + "<li>{{name}}</li>".repeat(100), { name: "x" });
  return { statusCode: 200, body: html };
};
