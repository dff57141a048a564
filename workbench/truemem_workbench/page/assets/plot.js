// What all charts share: uPlot's settings (uplot.js), its columns, and what is drawn over its curves.

const utc = (ms) => uPlot.tzDate(new Date(ms), "Etc/UTC");

// uPlot's gaps are null, in an array that is not typed.
function column(environment, key) {
  const made = (environment.drawn ??= {});
  return (made[key] ??= Array.from(environment[key], (value) => (value === value ? value : null)));
}

// Colours are asked for with each drawing: the theme may have changed.
function curves(environment, series, thinner = 1, more = () => ({ points: { show: environment.count < 3 } })) {
  return [{}, ...series.map(({ key, width }) => {
    const colour = () => colours()(key);
    return { stroke: colour, width: width * thinner, ...more(key, width, colour) };
  })];
}

// Draw in CSS pixels on uPlot's canvas.
function over(plot, draw) {
  const { ctx, bbox } = plot;
  const ratio = uPlot.pxRatio;
  const [left, top, width, height] = [bbox.left, bbox.top, bbox.width, bbox.height].map((size) => size / ratio);
  ctx.save();
  ctx.scale(ratio, ratio);
  draw(ctx, { left, top, width, height,
    x: (value) => left + plot.valToPos(value, "x"), y: (value) => top + plot.valToPos(value, "y") });
  ctx.restore();
}

// Charts that are taken out of the page go on listening to its window otherwise.
function forget(parent) {
  for (const each of parent.querySelectorAll(".small, .strip, .chart")) each.plot?.destroy();
}

// First index whose x is not below `value`.
function lowerBound(xs, value) {
  let low = 0;
  let high = xs.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (xs[middle] < value) low = middle + 1;
    else high = middle;
  }
  return low;
}

// Bounds that are apart: a bar for each doubtful invocation, one for each pixel where they are dense.
function band(context, xs, lower, upper, from, to, { x, y }) {
  const bars = new Map();
  const half = Math.max(0.5, Math.min(6, (x(xs[to - 1]) - x(xs[from])) / Math.max(1, to - from) / 2));
  for (let i = from; i < to; i++) {
    if (!(upper[i] - lower[i] > 0.01)) continue;
    const pixel = Math.floor(x(xs[i]));
    const [low, high] = bars.get(pixel) || [Infinity, -Infinity];
    bars.set(pixel, [Math.min(low, lower[i]), Math.max(high, upper[i])]);
  }
  for (const [pixel, [low, high]] of bars) context.fillRect(pixel + 0.5 - half, y(high), 2 * half, y(low) - y(high));
}

// The small picture of a card, and of the strip under the chart. `last` draws over it.
function sparkline(element, environment, { ceiling, xs, last = () => {} }) {
  const [width, height] = [element.clientWidth, element.clientHeight];
  if (!width) return;
  element.last = last;
  if (element.plot?.data[0] === xs) {
    element.plot.batch(() => {
      if (element.plot.width !== width || element.plot.height !== height) element.plot.setSize({ width, height });
      element.plot.setScale("y", { min: 0, max: ceiling });
      element.plot.redraw(false);
    });
    return;
  }
  element.plot?.destroy();
  const series = SERIES.slice(0, 3).filter(({ key }) => environment[key]);
  const draw = (context, place) => {
    const [colour, width] = [colours(), place.left * 2 + place.width];
    context.strokeStyle = colour("quiet");
    if (environment.limit && environment.limit <= element.plot.scales.y.max) line(context, [2, 3], 0, place.y(environment.limit), width, place.y(environment.limit));
    let drawn = -9;
    context.strokeStyle = colour("outOfMemory");
    context.lineWidth = 1.8;
    for (let i = 0; i < environment.count; i++) {
      if (!(environment.flags[i] & FLAG.outOfMemory) || place.x(xs[i]) - drawn < 7) continue;
      drawn = place.x(xs[i]);
      shape(context, MARKS[0], Math.min(width - 5, Math.max(5, drawn)), 5, 0.75);
    }
    element.last(context, place);
  };
  element.plot = new uPlot({
    width, height, ms: 1, padding: [6, 2, 2, 2], legend: { show: false }, cursor: { show: false },
    axes: [{ show: false }, { show: false }], series: curves(environment, series, 0.75),
    scales: { x: { time: false, range: () => [xs[0], Math.max(xs[xs.length - 1], xs[0] + 1)] }, y: { range: () => [0, ceiling] } },
    hooks: { draw: [(plot) => over(plot, draw)] },
  }, [xs, ...series.map(({ key }) => column(environment, key))], element);
}

function line(context, dashes, ...[x, y, toX, toY]) {
  context.setLineDash(dashes);
  context.beginPath();
  context.moveTo(x, y);
  context.lineTo(toX, toY);
  context.stroke();
  context.setLineDash([]);
}

function shape(context, mark, x, y, scale = 1) {
  const path = new Path2D(mark.path);
  context.save();
  context.translate(x, y);
  context.scale(scale, scale);
  context.stroke(path);
  if (mark.key === "coldStart") context.fill(path);
  context.restore();
}

// Up to where a small picture goes: over everything, and over the limit where it is near.
function ceilingOf(environment) {
  const top = Math.max(1, ...["peak", "current", "mark"].map((key) => highest(environment[key])).filter((v) => v === v));
  return environment.limit && top > 0.6 * environment.limit ? Math.max(top, environment.limit) * 1.04 : top * 1.1;
}
