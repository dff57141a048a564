// Calls a handler as a runtime client does, with the requests that the preload sees, and asks for a profile.
// Usage: driver.cjs FILE INVOCATIONS ASK_AT. Prints the profile's answer, as JSON, and the number of answers.
// WITHDRAW: the invocation before which the request is withdrawn.
const { readFileSync, rmSync, writeFileSync, writeSync } = require("fs");
const { resolve } = require("path");
const channel = require("diagnostics_channel").channel("http.client.request.start");

const { parse, stringify } = JSON;
const { TMPDIR, ASK = "truemem-lines-1 60 100 6553\n", WITHDRAW, AWS_LAMBDA_RUNTIME_API } = process.env;
const [, , file, invocations, askAt] = process.argv;
const ask = `${TMPDIR}/.truemem-lines-${process.pid}`;
const getHeader = () => AWS_LAMBDA_RUNTIME_API;
const publish = (path) => channel.publish({ request: { path: `/2018-06-01/runtime/invocation/${path}`, getHeader } });

// As AWS's client sends: `process.dlopen` does nothing where ADDON is set.
const addon = { next() {}, done() {}, error() {} };
const through = { next: () => addon.next(), response: (id) => addon.done(id, "null") };
const sending = (path) => (path === "next" ? through.next() : through.response(path.split("/")[0]));
if (process.env.ADDON) process.dlopen({ exports: addon }, "client");
const send = process.env.ADDON ? sending : publish;

(async () => {
  const loaded = await import(resolve(file));
  const handler = loaded.handler || loaded.default.handler;
  let answers = 0;
  for (let n = 0; n < Number(invocations); n += 1) {
    if (n === Number(askAt)) writeFileSync(ask, ASK, { mode: 0o600 });
    if (n === Number(WITHDRAW)) rmSync(ask);
    send("next");
    const answer = await handler({ n }, { awsRequestId: `id-${n}` });
    if (answer !== undefined) answers += 1;
    send(`id-${n}/response`);
    await new Promise((done) => setImmediate(done)); // without arguments: Node.js iterates over those
  }
  send("next");
  let found = null;
  try {
    found = parse(readFileSync(`${ask}.json`, "utf8"));
  } catch {
    // none was written
  }
  writeSync(1, stringify({ found, answers }));
})();
