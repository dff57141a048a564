"use strict";
class Logger {
  constructor(options = {}) {
    this.options = options;
    this.children = [];
    this.buffer = [];
  }
  child(bindings) {
    const logger = new Logger({ ...this.options, bindings });
    this.children.push(logger); // leak
    return logger;
  }
  info(message, extra) {
    this.buffer.push({ message, extra, time: new Date().toISOString() });
    if (this.buffer.length > 10) this.buffer = [];
  }
}
const root = new Logger({ level: "info" });
exports.handler = async (event, context) => {
  const log = root.child({ requestId: context.awsRequestId, payload: { items: Array.from({ length: 100 }, (_, i) => "i" + i + event.n) } });
  log.info("start", { n: event.n });
  const out = await Promise.resolve({ statusCode: 200 });
  log.info("end");
  return out;
};
