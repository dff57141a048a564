// What an environment's figures say in words.

// Since when the mark stands, and what is below it: growth that it hides, or peaks that are far lower.
function markStory(environment) {
  const { mark, peak, current, number, finding } = environment;
  const last = lastKnown(mark);
  if (last !== last || !peak) return "";
  let since = 0;
  for (let i = 1; i < mark.length; i++) if (!(mark[i] <= mark[since])) since = mark[i] === mark[i] ? i : since;
  const after = highest(peak, since + 1);
  if (after !== after || mark.length - since < Math.max(5, mark.length / 10)) return "";
  const set = `The mark: ${mib(last)} MiB, set by invocation ${whole(number[since])}.`;
  if (finding.grows && current) {
    const [then, now] = [firstKnown(current.subarray(since)), lastKnown(current)];
    return now > then ? `${set} Below it, current has grown since then: from ${mib(then)} to ${mib(now)} MiB.` : "";
  }
  if (finding.grows || after > 0.93 * last) return "";
  return `${set} None of the ${whole(mark.length - since - 1)} invocations since then needed more than ${mib(after)} MiB.`;
}

function heldBy(environment) {
  const held = Object.entries(environment.holders).sort((a, b) => b[1] - a[1]);
  return held.map(([name, size]) => `${name} ${mib(size)}`).join(" · ");
}

// The middle of a column: half are below.
function median(column) {
  const known = column ? Float64Array.from(column).filter((value) => value === value).sort() : [];
  return known.length ? known[known.length >> 1] : NaN;
}

function outcome(environment, row) {
  return environment.outcome ? environment.words[environment.outcome[row]] : "";
}

function remarks(environment, row, brief = false) {
  const flags = environment.flags[row];
  const said = MARKS.filter(({ key }) => key !== "failed" && flags & FLAG[key]).map(({ name }) => name);
  if (outcome(environment, row)) said.push(outcome(environment, row));
  if (brief) return said;
  if (flags & FLAG.sampled) said.push("peak sampled: a lower bound");
  if (flags & FLAG.ended) said.push("ended by shutdown: what it left behind is not known");
  if (flags & FLAG.recovered) said.push("recovered");
  if (flags & FLAG.noReport) said.push("no report came");
  return said;
}

// The invocations that a reader will ask about: [row, why], in their order.
function notable(environment, most = 10) {
  const chosen = new Map();
  for (const { key } of MARKS.slice(0, 3)) {
    const rows = [];
    environment.flags.forEach((flags, row) => flags & FLAG[key] && rows.push(row));
    for (const row of rows.slice(-4)) if (chosen.size < most) chosen.set(row, remarks(environment, row, true).join(", "));
  }
  const { peak } = environment;
  if (peak) {
    const usual = median(peak);
    const top = [];
    for (let row = 0; row < peak.length; row++) {
      if (!(peak[row] > usual * 1.05 + 1) || (top.length > 2 && peak[row] <= peak[top[2]])) continue;
      const near = top.findIndex((other) => row - other < peak.length / 50 + 2); // one of a slope is enough
      if (near >= 0 && peak[top[near]] >= peak[row]) continue;
      if (near >= 0) top.splice(near, 1);
      top.push(row);
      top.sort((a, b) => peak[b] - peak[a]).splice(3);
    }
    for (const row of top) {
      if (peak[row] - usual < (peak[top[0]] - usual) / 2) continue;
      const why = row === top[0] ? "highest peak" : "high peak";
      if (chosen.size < most) chosen.set(row, chosen.has(row) ? `${chosen.get(row)}, ${why}` : why);
    }
  }
  return [...chosen].sort((a, b) => a[0] - b[0]);
}
