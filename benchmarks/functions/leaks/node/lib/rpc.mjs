import { setTimeout as sleep } from 'node:timers/promises';

export class RpcClient {
  #requests = new Map();

  // elasticio/amqp-rpc#19: a request that timed out stays in the map
  async call(id, payload, { answers, forget }) {
    const answer = new Promise((resolve, reject) => {
      this.#requests.set(id, { payload, resolve, reject }); // LEAK pending_rpc
    });
    if (answers) setImmediate(() => this.#receive(id, 'ok'));
    const late = sleep(2).then(() => 'timeout');
    const outcome = await Promise.race([answer, late]);
    if (outcome === 'timeout' && forget) this.#requests.delete(id);
    return outcome;
  }

  #receive(id, value) {
    const request = this.#requests.get(id);
    this.#requests.delete(id);
    request?.resolve(value);
  }
}
export const rpc = new RpcClient();
