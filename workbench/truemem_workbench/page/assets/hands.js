// What pointer and keyboard do to a chart.

// The next invocation that has a mark, or the one before.
function step(chart, direction) {
  const { flags, count: length } = chart.environment;
  for (let i = (chart.cursor < 0 ? (direction > 0 ? -1 : length) : chart.cursor) + direction; i >= 0 && i < length; i += direction) {
    if (markOf(flags[i])) return move(chart, i);
  }
  return undefined;
}

function listen(chart) {
  const { element, strip } = chart;
  const pixel = (event) => event.clientX - chart.plot.over.getBoundingClientRect().left;
  element.addEventListener("pointermove", (event) => {
    if (event.pointerType === "touch") chart.point(chart.rowAt(pixel(event))); // uPlot hears the mouse alone
  });
  element.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey) return; // the page scrolls
    event.preventDefault();
    chart.zoom(event.deltaY > 0 ? 1.25 : 0.8, chart.valueAt(pixel(event)));
  }, { passive: false });
  element.addEventListener("keydown", (event) => pressed(chart, event));

  const slide = (event) => {
    if (!event.buttons) return;
    const [low, high] = chart.bounds;
    const middle = low + ((event.clientX - strip.getBoundingClientRect().left) / strip.clientWidth) * (high - low);
    chart.look(middle - (chart.to - chart.from) / 2, middle + (chart.to - chart.from) / 2);
  };
  strip.addEventListener("pointerdown", slide);
  strip.addEventListener("pointermove", slide);
}

function pressed(chart, event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const far = event.shiftKey ? 10 : 1;
  const [begin, end] = chart.visible();
  const pixel = Math.max(1, Math.round((end - begin) / Math.max(1, chart.element.clientWidth - LEFT - RIGHT)));
  const walk = (rows) => move(chart, chart.cursor < 0 ? (rows > 0 ? begin : end - 1) : chart.cursor + rows);
  const actions = {
    ArrowRight: () => walk(far * pixel),
    ArrowLeft: () => walk(-far * pixel),
    Home: () => move(chart, 0),
    End: () => move(chart, chart.environment.count - 1),
    "+": () => chart.zoom(0.5),
    "=": () => chart.zoom(0.5),
    "-": () => chart.zoom(2),
    0: () => chart.all(),
    n: () => step(chart, 1),
    p: () => step(chart, -1),
  };
  if (!actions[event.key]) return;
  event.preventDefault();
  event.stopPropagation();
  actions[event.key]();
}

// To an invocation, with the view following.
function move(chart, row) {
  const to = Math.max(0, Math.min(chart.environment.count - 1, row));
  const [x, span] = [chart.xs[to], chart.to - chart.from];
  if (x < chart.from) chart.look(x - span * 0.1, x + span * 0.9);
  else if (x > chart.to) chart.look(x - span * 0.9, x + span * 0.1);
  chart.point(to);
}
