// Asks a server, here one in this process, whether it is there. Only the status of its answer counts.
import { Agent, createServer, get } from "node:http";
import { once } from "node:events";

const server = createServer((request, response) => response.end("I am here".repeat(200)));
server.keepAliveTimeout = 0;
await once(server.listen(0, "127.0.0.1").unref(), "listening");
const agent = new Agent({ keepAlive: true });

export async function handler() {
  const [response] = await once(get({ port: server.address().port, host: "127.0.0.1", agent }), "response");
  response.resume();
  await once(response, "end");
  return response.statusCode;
}
