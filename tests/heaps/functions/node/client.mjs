// A runtime client that needs no compiler and no npm, as aws-lambda-ric is made: CLIENT says through what it sends.
import { createRequire } from "node:module";
import path from "node:path";
import { Worker, isMainThread } from "node:worker_threads";

const require = createRequire(import.meta.url);
const [, below, module, name] = /^(.*\/)?([^./]+)\.(.+)$/.exec(process.argv[2]);
const HOST = process.env.AWS_LAMBDA_RUNTIME_API;
const PREFIX = "/2018-06-01/runtime/invocation";

// Through http, as streamed answers of AWS's client: in pieces.
function http(path, body) {
  const [hostname, port] = HOST.split(":");
  return new Promise((resolve, reject) => {
    const method = body === undefined ? "GET" : "POST";
    const request = require("node:http").request({ hostname, port, path, method }, (response) => {
      let text = "";
      response.setEncoding("utf8").on("data", (part) => (text += part)).on("end", () => resolve({ text, id: response.headers["lambda-runtime-aws-request-id"] }));
    });
    request.on("error", reject);
    if (body !== undefined) for (const half of [body.slice(0, 3), body.slice(3)]) request.write(half);
    request.end();
  });
}

async function byFetch(path, body) {
  const response = await fetch(`http://${HOST}${path}`, body === undefined ? {} : { method: "POST", body });
  return { text: await response.text(), id: response.headers.get("lambda-runtime-aws-request-id") };
}

// Through the addon that stand_in.cjs puts in its place, by the calls that aws-lambda-ric makes.
const addon = {
  next: async () => {
    const { bodyJson, headers } = await require("./rapid-client.node").next();
    return { text: bodyJson, id: headers["lambda-runtime-aws-request-id"] };
  },
  done: (id, body) => require("./rapid-client.node").done(encodeURIComponent(id), body),
  error: (id, body) => require("./rapid-client.node").error(encodeURIComponent(id), body, ""),
};
const over = (send) => ({
  next: () => send(`${PREFIX}/next`),
  done: (id, body) => send(`${PREFIX}/${id}/response`, body),
  error: (id, body) => send(`${PREFIX}/${id}/error`, body),
});
const client = { http: over(http), fetch: over(byFetch), addon }[process.env.CLIENT ?? "fetch"];
if (process.env.CLIENT === "addon") require("./rapid-client.node");

const folder = path.resolve(process.env.LAMBDA_TASK_ROOT, below ?? "");
const file = require("node:fs").readdirSync(folder).find((each) => path.parse(each).name === module);
const { [name]: handler } = await import(path.join(folder, file));

// WORKERS: as on Managed Instances, where AWS's client serves in worker threads.
const workers = isMainThread ? Number(process.env.WORKERS ?? 0) : 0;
for (let count = 0; count < workers; count += 1) new Worker(new URL(import.meta.url), { argv: process.argv.slice(2), env: process.env });
while (!workers) {
  const { text, id } = await client.next();
  try {
    const result = await handler(JSON.parse(text), { awsRequestId: id });
    await client.done(id, JSON.stringify(result ?? null));
  } catch (error) {
    await client.error(id, JSON.stringify({ errorType: error.name, errorMessage: error.message }));
  }
}
