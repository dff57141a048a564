const shutdown = new Promise((resolve) => process.once('SIGTERM', resolve));

// nodejs/node#17469: each race adds a reaction to the promise that stays pending
export async function untilShutdown(work, forever = true) {
  const stop = forever ? shutdown : new Promise(() => {});
  return Promise.race([work, stop]); // LEAK price_race
}
