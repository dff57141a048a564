// The curves and the marks: their names, colours (of style.css) and shapes, for chart, legend and cards alike.
// Of the first three each is wider than the next, which is drawn over it: curves that are equal are all seen.

const SERIES = [
  { key: "mark", name: "Max Memory Used", title: "REPORT's high-water mark: it never falls", width: 3.8 },
  { key: "peak", name: "peak", title: "Highest RSS of the function inside each invocation", width: 2.6 },
  { key: "current", name: "current", title: "RSS at the close: what each invocation left behind", width: 1.2 },
  { key: "held", name: "heap: held", title: "Freed by the function, kept by its allocator", width: 1.2 },
  { key: "inUse", name: "heap: in use", title: "Allocated and not freed, blocks with a mapping of their own included", width: 1.2 },
];

// The first that an invocation has is the one that is drawn. Paths in a square of 10, around 0.
const MARKS = [
  { key: "outOfMemory", name: "out of memory", path: "M-4.5 -4.5L4.5 4.5M4.5 -4.5L-4.5 4.5", line: true },
  { key: "failed", name: "error or timeout", path: "M-4 0L4 0M0 -4L0 4", line: true },
  { key: "reset", name: "reset", path: "M-4 -4L4 -4L4 4L-4 4Z", line: false },
  { key: "coldStart", name: "cold start", path: "M0 -4.5L4.5 4L-4.5 4Z", line: false },
  { key: "raced", name: "raced: bounds only", path: "M0 -4.5L4.5 0L0 4.5L-4.5 0Z", line: false },
];

function markOf(flags) {
  return MARKS.find((mark) => flags & FLAG[mark.key]);
}

function colours() {
  const style = getComputedStyle(document.documentElement);
  return (name) => style.getPropertyValue(`--${name}`).trim();
}

// A legend's picture of a mark or a curve.
function icon(what) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
  svg.setAttribute("viewBox", what.path ? "-6 -6 12 12" : "0 0 18 12");
  svg.setAttribute("class", `icon ${what.key}`);
  svg.setAttribute("aria-hidden", "true");
  path.setAttribute("d", what.path || "M1 6H17");
  if (!what.path) path.setAttribute("stroke-width", Math.max(2, what.width * 1.3));
  svg.append(path);
  return svg;
}
