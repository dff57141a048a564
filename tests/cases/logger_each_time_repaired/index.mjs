// Makes one logger for all requests, which opens the log once.
import pino from "pino";

const LOG = "/dev/null";
const logger = pino(pino.destination({ dest: LOG, sync: true }));

export async function handler() {
  logger.info("a hit");
  return "done";
}
