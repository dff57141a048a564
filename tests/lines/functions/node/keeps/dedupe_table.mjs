import crypto from "node:crypto";
const processed = new Map();
const TTL = 3600 * 1000;

function fingerprint(record) {
  return crypto.createHash("sha1").update(JSON.stringify(record)).digest("hex");
}

function isDuplicate(record) {
  const id = fingerprint(record);
  const hit = processed.get(id);
  if (hit && Date.now() - hit.at < TTL) return true;
  processed.set(id, { at: Date.now(), record }); // leak
  return false;
}

export const handler = async (event) => {
  const records = Array.from({ length: 20 }, (_, i) => ({ messageId: `${event.n}-${i}`, body: "x".repeat(100) + i }));
  let fresh = 0;
  for (const record of records) {
    if (!isDuplicate(record)) fresh += 1;
  }
  return { fresh };
};
