const { handler } = await import(process.argv[2]).then((m) => (m.handler ? m : m.default));
console.log = () => {};
const used = async () => {
  for (let i = 0; i < 4; i++) { await new Promise((r) => setTimeout(r, 30)); globalThis.gc(); }
  const m = process.memoryUsage();
  return (m.heapUsed + m.external) / 1024;
};
for (let i = 0; i < 400; i++) await handler({ i });
await used(); // the collections before and after are alike
for (let i = 0; i < 200; i++) await handler({ i });
const [before, rss] = [await used(), process.memoryUsage().rss];
for (let i = 0; i < 200; i++) await handler({ i });
const kept = (await used() - before) / 200;
process.stdout.write(kept.toFixed(2));
if (process.env.RSS) process.stdout.write(` (RSS ${((process.memoryUsage().rss - rss) / 204800).toFixed(2)})`);
process.exit(0);
