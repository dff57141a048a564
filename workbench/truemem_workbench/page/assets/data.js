// What Python wrote into the page, as environments with typed arrays. Absent columns are undefined, unknown values NaN.

const FLAG = {
  coldStart: 1, reset: 2, outOfMemory: 4, raced: 8, failed: 16, recovered: 32, noReport: 64, ended: 128, sampled: 256,
};

async function load() {
  const about = JSON.parse(document.getElementById("about").textContent);
  const text = atob(document.getElementById("columns").textContent);
  const packed = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) packed[i] = text.charCodeAt(i);
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  const bytes = await new Response(stream).arrayBuffer();

  const ids = new Uint8Array(bytes, 0, about.count * 16);
  const all = {};
  let at = ids.length;
  for (const [name, type] of about.layout) {
    all[name] = new globalThis[type](bytes, at, about.count);
    at += all[name].byteLength;
  }
  let start = 0;
  const environments = about.environments.map((said, index) => {
    const environment = { ...said, index, start, words: about.words };
    for (const name in all) {
      const column = all[name].subarray(start, start + said.count);
      if (name === "flags" || name === "number" || column.some((value) => value === value)) environment[name] = column;
    }
    environment.requestId = (row) => requestId(ids, about.ids, environment.start + row);
    start += said.count;
    return environment;
  });
  return { environments, leftOut: about.leftOut, note: about.note, count: about.count, ids, oddIds: about.ids };
}

function requestId(ids, odd, row) {
  if (odd[row]) return odd[row];
  let text = "";
  for (let i = 0; i < 16; i++) text += ids[row * 16 + i].toString(16).padStart(2, "0");
  if (/^0+$/.test(text)) return "";
  return text.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
}

// The row of a request whose id begins so; -1 if there is none.
function findRequest(data, wanted) {
  const prefix = wanted.toLowerCase();
  for (const row in data.oddIds) if (data.oddIds[row].toLowerCase().startsWith(prefix)) return Number(row);
  const hex = prefix.replaceAll("-", "");
  if (!/^[0-9a-f]{6,32}$/.test(hex)) return -1;
  const first = [];
  for (let i = 0; i + 1 < hex.length; i += 2) first.push(parseInt(hex.slice(i, i + 2), 16));
  for (let row = 0; row < data.count; row++) {
    let i = 0;
    while (i < first.length && data.ids[row * 16 + i] === first[i]) i++;
    if (i === first.length && requestId(data.ids, data.oddIds, row).replaceAll("-", "").startsWith(hex)) return row;
  }
  return -1;
}

function highest(column, from = 0, to = column ? column.length : 0) {
  let top = NaN;
  for (let i = from; i < to && column; i++) if (!(column[i] <= top) && column[i] === column[i]) top = column[i];
  return top;
}

function lastKnown(column, before = column ? column.length : 0) {
  for (let i = before - 1; i >= 0 && column; i--) if (column[i] === column[i]) return column[i];
  return NaN;
}

function firstKnown(column) {
  return column ? column.find((value) => value === value) ?? NaN : NaN;
}

function count(environment, flag) {
  let found = 0;
  for (const flags of environment.flags) if (flags & flag) found++;
  return found;
}
