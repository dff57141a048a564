import { handler } from './app.mjs';
console.log = () => {};
const used = async () => {
  for (let i = 0; i < 4; i++) { await new Promise((r) => setTimeout(r, 30)); globalThis.gc(); }
  const m = process.memoryUsage();
  return (m.heapUsed + m.external) / 1024;
};
for (let i = 0; i < 120; i++) await handler({ i });
const before = await used();
for (let i = 0; i < 200; i++) await handler({ i });
process.stdout.write(((await used() - before) / 200).toFixed(2));
process.exit(0);
