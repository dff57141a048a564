// The functions of app.mjs, with a clock where the preload looks whether lines are asked for: around the request for
// the next event. By turns it is made past the preload's look. `{"spent": true}` is answered with the CPU time, µs.
import { createRequire } from "node:module";

import * as app from "./app.mjs";

const EACH = 8; // requests in a row; then it is the other way's turn. From one look to the next there are as many
const spent = []; // CPU of each turn: first with the look, then without it, and so on
let count = 0;

const require = createRequire(import.meta.url);
const addon = Object.keys(require.cache).find((path) => path.endsWith("rapid-client.node"));
const client = require(addon);
const looking = client.next;
const again = { exports: {} };
process.dlopen(again, addon); // its functions anew, as the preload has not seen them
const past = function () {
  return Reflect.apply(again.exports.next, this, arguments);
};
client.next = function () {
  const way = Math.floor(count / EACH) % 2 ? past : looking;
  if (count % EACH === 0) spent.push(0);
  count += 1;
  const { user, system } = process.cpuUsage();
  const next = Reflect.apply(way, this, arguments);
  const after = process.cpuUsage();
  spent[spent.length - 1] += after.user + after.system - user - system;
  return next;
};

export const works = async (event) => (event.spent ? spent : app.works(event));
