// What a chart has besides its curves: axes, limit, marks, crosshair, selection.

function drawAxes(chart, context, colour) {
  const sizes = ticks(chart.low, chart.high, Math.min(8, chart.height / 50));
  context.lineWidth = 1;
  context.textBaseline = "middle";
  for (const value of sizes.found) {
    const at = Math.round(chart.y(value)) + 0.5;
    context.strokeStyle = colour(value === 0 ? "axis" : "grid");
    context.beginPath();
    context.moveTo(LEFT, at);
    context.lineTo(chart.width - RIGHT, at);
    context.stroke();
    context.fillStyle = colour("quiet");
    context.textAlign = "right";
    context.fillText(sizes.step < 1 ? value.toFixed(Math.ceil(-Math.log10(sizes.step))) : whole(value), LEFT - 8, at);
  }
  context.textAlign = "left";
  context.fillText("MiB", 2, LANE / 2 + 1);
  const room = (chart.width - LEFT) / (chart.axis === "time" ? 95 : 80);
  const { found, step } = (chart.axis === "time" ? timeTicks : ticks)(chart.from, chart.to, room);
  for (const value of found) {
    if (chart.axis === "number" && (value % 1 || value < 1)) continue;
    const at = chart.x(value);
    if (at < LEFT || at > chart.width - RIGHT + 1) continue;
    const text = chart.axis === "time" ? timeLabel(value, step) : whole(value);
    const half = context.measureText(text).width / 2;
    context.textAlign = "center";
    context.fillText(text, Math.min(chart.width - half, at), chart.height - BOTTOM / 2 + 1);
  }
}

function drawLimit(chart, context, colour) {
  const limit = chart.environment.limit;
  if (!limit || chart.hidden.has("limit") || limit > chart.high || limit < chart.low) return;
  const at = Math.round(chart.y(limit)) + 0.5;
  context.strokeStyle = context.fillStyle = colour("limit");
  context.lineWidth = 1.2;
  context.setLineDash([5, 4]);
  context.beginPath();
  context.moveTo(LEFT, at);
  context.lineTo(chart.width, at);
  context.stroke();
  context.setLineDash([]);
  context.textAlign = "left";
  context.textBaseline = "top";
  context.fillText(`memory size: ${whole(limit)}`, LEFT + 6, at + 4);
}

// In a lane of their own, where no curve hides them; where they are dense, the gravest of each few pixels.
function drawMarks(chart, context, colour, begin, end) {
  const places = new Map();
  for (let i = begin; i < end; i++) {
    const mark = markOf(chart.environment.flags[i]);
    if (!mark || chart.hidden.has(mark.key)) continue;
    const place = Math.round(chart.x(chart.xs[i]) / 9);
    const there = places.get(place);
    if (!there || MARKS.indexOf(mark) < MARKS.indexOf(there.mark)) places.set(place, { mark, at: chart.x(chart.xs[i]) });
  }
  for (const { mark, at } of places.values()) {
    context.strokeStyle = context.fillStyle = colour(mark.key);
    if (mark.key === "outOfMemory" || mark.key === "reset") {
      context.globalAlpha = places.size < 80 ? 0.45 : 0.15;
      context.lineWidth = 1;
      context.beginPath();
      context.moveTo(at, LANE);
      context.lineTo(at, chart.height - BOTTOM);
      context.stroke();
      context.globalAlpha = 1;
    }
    context.save();
    context.translate(at, LANE / 2);
    context.lineWidth = mark.line ? 2.4 : 1.6;
    const path = new Path2D(mark.path);
    context.stroke(path);
    if (mark.key === "coldStart") context.fill(path);
    context.restore();
  }
}

function drawCrosshair(chart, context, colour, shown) {
  const at = chart.x(chart.xs[chart.cursor]);
  context.strokeStyle = colour("quiet");
  context.lineWidth = 1;
  context.beginPath();
  context.moveTo(at, LANE);
  context.lineTo(at, chart.height - BOTTOM);
  context.stroke();
  for (const { key } of shown) {
    const value = chart.environment[key][chart.cursor];
    if (value !== value) continue;
    context.fillStyle = colour("paper");
    context.strokeStyle = colour(key);
    context.lineWidth = 2.2;
    context.beginPath();
    context.arc(at, chart.y(value), 4.2, 0, 7);
    context.fill();
    context.stroke();
  }
}

function drawSelection(chart, context, colour) {
  const [a, b] = chart.selected;
  context.fillStyle = colour("accent");
  context.globalAlpha = 0.16;
  context.fillRect(Math.min(a, b), LANE, Math.abs(b - a), chart.height - LANE - BOTTOM);
  context.globalAlpha = 1;
}
