// Runs eight tasks, and measures how long each takes.
import { performance } from "node:perf_hooks";

function run(task) {
  performance.mark(`begin ${task}`);
  const result = Math.sqrt(task);
  performance.mark(`end ${task}`);
  performance.measure(`task ${task}`, `begin ${task}`, `end ${task}`);
  performance.clearMarks(`begin ${task}`);
  performance.clearMarks(`end ${task}`);
  performance.clearMeasures(`task ${task}`);
  return result;
}

export async function handler() {
  return [1, 2, 3, 4, 5, 6, 7, 8].map(run).length;
}
