import { randomBytes } from "node:crypto";
const chunks = [];
export const handler = async (event) => {
  const body = Buffer.alloc(40000, 1);
  const tag = body.subarray(0, 10).toString("hex");
  chunks.push(body); // leak
  return { tag };
};
