import { fork } from 'node:child_process';
import http from 'node:http';
import { fileURLToPath } from 'node:url';

let port;
async function upstream() {
  port ??= new Promise((resolve) => {
    const child = fork(fileURLToPath(new URL('./upstream.cjs', import.meta.url)), { execArgv: [], env: {} });
    child.once('message', (p) => { child.unref(); child.channel.unref(); resolve(p); });
  });
  return port;
}

// Azure/azure-sdk-for-js#5552: a new agent with keepAlive for each request
const shared = new http.Agent({ keepAlive: true, maxSockets: 2 });
export async function stock(path, reuse) {
  const at = await upstream();
  const agent = reuse ? shared : new http.Agent({ keepAlive: true }); // LEAK agent_per_call
  return new Promise((resolve, reject) => {
    const request = http.get({ host: '127.0.0.1', port: at, path, agent }, (response) => { // LEAK agent_per_call
      let body = '';
      response.on('data', (d) => { body += d; });
      response.on('end', () => resolve(JSON.parse(body)));
    });
    request.on('error', reject);
  });
}
