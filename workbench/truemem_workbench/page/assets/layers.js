// What a chart has besides uPlot's curves, axes and crosshair: bounds, limit, marks.

function drawBelow(chart, context, place) {
  const { environment, xs } = chart;
  const [begin, end] = chart.visible();
  const [from, to] = [Math.max(0, begin - 1), Math.min(environment.count, end + 1)];
  context.save();
  context.beginPath();
  context.rect(place.left, LANE, place.width, place.top + place.height - LANE);
  context.clip();
  drawLimit(chart, context, place);
  if (environment.lower && environment.upper && !chart.hidden.has("peak") && to > from) {
    context.fillStyle = colours()("peak");
    context.globalAlpha = 0.28;
    band(context, xs, environment.lower, environment.upper, from, to, place);
  }
  context.restore();
}

function drawLimit(chart, context, { left, width, y }) {
  const limit = chart.environment.limit;
  if (!limit || chart.hidden.has("limit")) return;
  const at = Math.round(y(limit)) + 0.5;
  context.strokeStyle = context.fillStyle = colours()("limit");
  context.lineWidth = 1.2;
  line(context, [5, 4], left, at, left + width, at);
  context.font = FONT;
  context.textAlign = "left";
  context.textBaseline = "top";
  context.fillText(`memory size: ${whole(limit)}`, left + 6, at + 4);
}

// In a lane of their own, where no curve hides them; where they are dense, the gravest of each few pixels.
function drawMarks(chart, context, { x, top, height }) {
  const [begin, end] = chart.visible();
  const colour = colours();
  context.font = FONT;
  context.textAlign = "left";
  context.textBaseline = "middle";
  context.fillStyle = colour("quiet");
  context.fillText("MiB", 2, LANE / 2 + 1);
  const places = new Map();
  for (let i = begin; i < end; i++) {
    const mark = markOf(chart.environment.flags[i]);
    if (!mark || chart.hidden.has(mark.key)) continue;
    const at = x(chart.xs[i]);
    const there = places.get(Math.round(at / 9));
    if (!there || MARKS.indexOf(mark) < MARKS.indexOf(there.mark)) places.set(Math.round(at / 9), { mark, at });
  }
  for (const { mark, at } of places.values()) {
    context.strokeStyle = context.fillStyle = colour(mark.key);
    if (mark.key === "outOfMemory" || mark.key === "reset") {
      context.globalAlpha = places.size < 80 ? 0.45 : 0.15;
      context.lineWidth = 1;
      line(context, [], at, LANE, at, top + height);
      context.globalAlpha = 1;
    }
    context.lineWidth = mark.line ? 2.4 : 1.6;
    shape(context, mark, at, LANE / 2);
  }
}
