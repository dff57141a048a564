// A runtime with Node's own HTTP, shaped like aws-lambda-ric: a new connection for each request for an event, the old
// ones left open; one that is kept for all responses.
import http from "node:http";
import { handler } from "./app.mjs";

const [host, port] = process.env.AWS_LAMBDA_RUNTIME_API.split(":");
const invocation = "/2018-06-01/runtime/invocation";
const kept = new http.Agent({ keepAlive: true, maxSockets: 1 });

function call(method, path, agent, body) {
  return new Promise((resolve, reject) => {
    const request = http.request({ host, port, method, path: `${invocation}/${path}`, agent }, async (response) => {
      const chunks = [];
      for await (const chunk of response) chunks.push(chunk);
      resolve({ headers: response.headers, body: Buffer.concat(chunks) });
    });
    request.on("error", reject);
    request.end(body);
  });
}

for (;;) {
  const event = await call("GET", "next", new http.Agent({ keepAlive: true }));
  const id = event.headers["lambda-runtime-aws-request-id"];
  const answer = await handler(JSON.parse(event.body));
  await call("POST", `${id}/response`, kept, JSON.stringify(answer));
}
