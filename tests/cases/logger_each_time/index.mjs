// Makes a logger for each request, which opens the log again.
import pino from "pino";

const LOG = "/dev/null";

export async function handler() {
  const logger = pino(pino.destination({ dest: LOG, sync: true }));
  logger.info("a hit");
  return "done";
}
