// Writes an upload to a temporary file, as a parser of forms does, and counts its lines.
import { randomUUID } from "node:crypto";
import { readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

const body = "a line of the upload, with some text\n".repeat(7_000);

export async function handler() {
  const file = join(tmpdir(), `upload_${randomUUID()}`);
  await writeFile(file, body);
  const lines = (await readFile(file, "latin1")).split("\n").length - 1;
  await rm(file);
  return lines;
}
