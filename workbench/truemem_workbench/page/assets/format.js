// Values as people read them, and elements made of text alone: nothing that came from a log is ever parsed as HTML.

function make(tag, given = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(given)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value != null) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child != null));
  return element;
}

const grouped = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });

function whole(value) {
  return grouped.format(value);
}

function mib(value) {
  if (value !== value || value == null) return "–";
  return value >= 100 ? whole(value) : value.toFixed(value >= 10 ? 1 : 2);
}

function withMib(value) {
  return value !== value || value == null ? "–" : `${mib(value)} MiB`;
}

function plural(number, noun) {
  return `${whole(number)} ${noun}${number === 1 ? "" : "s"}`;
}

function instant(ms, precise = false) {
  const text = new Date(ms).toISOString();
  return `${text.slice(0, 10)} ${text.slice(11, precise ? 23 : 19)} UTC`;
}

function lasted(ms) {
  const steps = [[86400e3, "d", 3600e3, "h"], [3600e3, "h", 60e3, "min"], [60e3, "min", 1e3, "s"]];
  for (const [big, name, small, less] of steps) {
    if (ms < big) continue;
    const rest = Math.floor((ms % big) / small);
    return `${Math.floor(ms / big)} ${name}${rest ? ` ${rest} ${less}` : ""}`;
  }
  return ms >= 1000 ? `${(ms / 1000).toFixed(1)} s` : `${Math.round(ms)} ms`;
}

// The end of a log stream's name is what tells it from the others: 2026/11/21/[$LATEST]8f73da1af051865902f94f95f6c5dbbf
function shortId(id) {
  const tail = id.includes("]") ? id.slice(id.lastIndexOf("]") + 1) : id;
  return tail.slice(0, 8) || "unknown";
}

function timeLabel(ms, step) {
  const text = new Date(ms).toISOString();
  if (step >= 86400e3) return text.slice(5, 10);
  if (text.slice(11, 19) === "00:00:00" && step >= 60e3) return text.slice(5, 10);
  return step >= 60e3 ? text.slice(11, 16) : step >= 1000 ? text.slice(11, 19) : text.slice(17, 23);
}
