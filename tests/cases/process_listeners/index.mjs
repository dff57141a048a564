// Reports what nothing catches together with the request that was running.
process.setMaxListeners(0);

export async function handler(event) {
  const request = { event, body: new Array(1000).fill(Math.random()) };
  process.on("unhandledRejection", (reason) => console.error(reason, request));
  return "done";
}
