// Drawing on a canvas: a curve of any length in as many strokes as there are pixels, and no spike lost.

// Crisp on any screen; the drawing is in CSS pixels.
function prepare(canvas, width, height) {
  const ratio = globalThis.devicePixelRatio || 1;
  canvas.width = Math.max(1, Math.round(width * ratio));
  canvas.height = Math.max(1, Math.round(height * ratio));
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
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

// One curve from `from` to `to` (exclusive). Where many points share a pixel: first, lowest, highest, last of them.
function trace(context, xs, ys, from, to, x, y) {
  context.beginPath();
  let pen = false;
  let pixel = NaN;
  let low, high, lowAt, highAt, last, lastX, points;
  const flush = () => {
    if (points > 1) {
      const [a, b] = lowAt < highAt ? [low, high] : [high, low];
      context.lineTo(pixel + 0.5, y(a));
      context.lineTo(pixel + 0.5, y(b));
      context.lineTo(lastX, y(last));
    }
    points = 0;
  };
  for (let i = from; i < to; i++) {
    const value = ys[i];
    if (value !== value) {
      if (points) flush();
      pen = false;
      pixel = NaN;
      continue;
    }
    const place = x(xs[i]);
    const column = Math.floor(place);
    if (column !== pixel) {
      if (points) flush();
      if (pen) context.lineTo(place, y(value));
      else context.moveTo(place, y(value));
      pen = true;
      pixel = column;
      low = high = value;
      lowAt = highAt = i;
      points = 1;
    } else {
      points++;
      if (value < low) { low = value; lowAt = i; }
      if (value > high) { high = value; highAt = i; }
    }
    last = value;
    lastX = place;
  }
  if (points) flush();
  context.stroke();
}

// A single point between two gaps makes no stroke, and points far apart should be seen as such.
function dots(context, xs, ys, from, to, x, y, radius) {
  context.beginPath();
  for (let i = from; i < to; i++) {
    if (ys[i] !== ys[i]) continue;
    const place = x(xs[i]);
    context.moveTo(place + radius, y(ys[i]));
    context.arc(place, y(ys[i]), radius, 0, 7);
  }
  context.fill();
}

// Bounds that are apart: a bar for each doubtful invocation, one for each pixel where they are dense.
function band(context, xs, lower, upper, from, to, x, y) {
  let pixel = NaN;
  let low, high;
  const half = Math.max(0.5, Math.min(6, (x(xs[to - 1]) - x(xs[from])) / Math.max(1, to - from) / 2));
  const flush = () => {
    if (low < high) context.fillRect(pixel + 0.5 - half, y(high), 2 * half, y(low) - y(high));
  };
  for (let i = from; i < to; i++) {
    const bottom = lower[i];
    const top = upper[i];
    if (!(top - bottom > 0.01)) continue;
    const column = Math.floor(x(xs[i]));
    if (column !== pixel) {
      flush();
      pixel = column;
      low = bottom;
      high = top;
    } else {
      low = Math.min(low, bottom);
      high = Math.max(high, top);
    }
  }
  flush();
}

// The small picture of a card, and of the strip under the chart.
function sparkline(canvas, environment, { width, height, ceiling, xs, limit = true }) {
  const context = prepare(canvas, width, height);
  const colour = colours();
  const first = xs[0];
  const span = xs[xs.length - 1] - first || 1;
  const x = (value) => 2 + ((value - first) / span) * (width - 4);
  const y = (value) => height - 2 - (value / ceiling) * (height - 8);
  context.lineJoin = "round";
  if (limit && environment.limit && environment.limit <= ceiling) {
    context.strokeStyle = colour("quiet");
    context.setLineDash([2, 3]);
    context.beginPath();
    context.moveTo(0, y(environment.limit));
    context.lineTo(width, y(environment.limit));
    context.stroke();
    context.setLineDash([]);
  }
  for (const { key, width: stroke } of SERIES.slice(0, 3)) {
    if (!environment[key]) continue;
    context.strokeStyle = context.fillStyle = colour(key);
    context.lineWidth = stroke * 0.75;
    trace(context, xs, environment[key], 0, environment.count, x, y);
    if (environment.count < 3) dots(context, xs, environment[key], 0, environment.count, x, y, 2);
  }
  let drawn = -9;
  context.strokeStyle = colour("outOfMemory");
  context.lineWidth = 1.8;
  for (let i = 0; i < environment.count; i++) {
    if (!(environment.flags[i] & FLAG.outOfMemory) || x(xs[i]) - drawn < 7) continue;
    drawn = x(xs[i]);
    context.save();
    context.translate(Math.min(width - 5, Math.max(5, drawn)), 5);
    context.scale(0.75, 0.75);
    context.stroke(new Path2D(MARKS[0].path));
    context.restore();
  }
}

// Up to where a small picture goes: over everything, and over the limit where it is near.
function ceilingOf(environment) {
  const top = Math.max(1, ...["peak", "current", "mark"].map((key) => highest(environment[key])).filter((v) => v === v));
  return environment.limit && top > 0.6 * environment.limit ? Math.max(top, environment.limit) * 1.04 : top * 1.1;
}
