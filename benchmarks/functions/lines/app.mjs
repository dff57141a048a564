// A function that keeps 40 KiB of each event that says so.
import { createHash } from "node:crypto";

const KEPT = [];
const ROWS = Array.from({ length: 300 }, (_, number) => ({ number, name: `row ${number}`, price: number * 1.5 }));

const add = () => KEPT.push(new Array(5120).fill(KEPT.length));
const total = (rows) => rows.reduce((sum, { number, price }) => (number % 2 ? sum : sum + price), 0);

export const works = async ({ keep }) => {
  const text = JSON.stringify(ROWS);
  let found = 0;
  for (let i = 0; i < 20; i += 1) {
    const rows = JSON.parse(text);
    createHash("sha256").update(text).digest("hex");
    found = total(rows);
  }
  if (keep) add();
  return found;
};
