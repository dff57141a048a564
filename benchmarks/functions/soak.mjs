// As soak.py, for Lambda Managed Instances: a handler that leaks only where requests overlap.
import { setTimeout as wait } from "node:timers/promises";

// Scopes of requests, for an error reporter. Only the last one that came can leave: of two requests that overlap, the one
// that ends first leaves its scope behind (getsentry/sentry-javascript#3572).
const scopes = [];
const enter = (scope) => scopes.push(scope);
const leave = (scope) => {
  if (scopes.at(-1) === scope) scopes.pop();
};

export const handler = async () => {
  const scope = { tags: Array.from({ length: 1500 }, (_, id) => ({ id, name: `tag ${id}` })) };
  enter(scope);
  await wait(15);
  leave(scope);
  return scopes.length;
};
