// Combines the signal of the process with one for the request, for each of twenty calls.
const shutdown = new AbortController();

export async function handler() {
  for (let call = 0; call < 20; call += 1) {
    const request = new AbortController();
    const either = AbortSignal.any([shutdown.signal, request.signal]);
    either.addEventListener("abort", () => call);
  }
  return "done";
}
