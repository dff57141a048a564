// The large chart of one environment: zoom, pan, hover, keyboard. It knows nothing of the page around it.

const LANE = 18; // for the marks, above the curves
const BOTTOM = 24;
const LEFT = 52;
const RIGHT = 26;
const REACH = 3; // pixels beside the pointer in which the highest peak is the one that is meant
const FONT = "12px system-ui, sans-serif";

class Chart {
  constructor(environment, { onhover, onview }) {
    this.environment = environment;
    this.series = SERIES.filter(({ key }) => environment[key]);
    this.hidden = new Set(["limit"]);
    if (ceilingOf(environment) >= environment.limit) this.hidden.delete("limit");
    this.fit = false;
    this.cursor = -1;
    this.element = make("div", {
      class: "chart", tabindex: 0, role: "application", "aria-label": "Memory of each invocation",
      "aria-describedby": "readout", "aria-keyshortcuts": "ArrowLeft ArrowRight + - 0 n p t y",
    });
    this.strip = make("div", { class: "strip", "aria-hidden": "true" });
    this.by("number");
    Object.assign(this, { onhover, onview });
    listen(this);
  }

  // What the horizontal axis is: `number` or `time`.
  by(axis) {
    const at = this.cursor;
    this.axis = axis;
    if (axis === "time") {
      // invocations that overlap (Managed Instances) may begin out of order: on the axis, time does not run backwards
      let before = firstKnown(this.environment.time);
      this.xs = Float64Array.from(this.environment.time, (ms) => (before = ms > before ? ms : before));
    } else this.xs = Float64Array.from(this.environment.number);
    this.plot?.destroy();
    this.plot = null;
    this.all();
    this.cursor = at;
  }

  get bounds() {
    const [first, last] = [this.xs[0], this.xs[this.xs.length - 1]];
    const pad = this.axis === "number" ? 0.5 : Math.max(1, (last - first) / 200);
    return [first - pad, last + pad];
  }

  all() {
    [this.from, this.to] = this.bounds;
    this._changed();
  }

  look(from, to) {
    const [low, high] = this.bounds;
    const least = Math.min(high - low, this.axis === "number" ? 4 : 20);
    let span = Math.min(high - low, Math.max(least, to - from));
    const start = Math.min(high - span, Math.max(low, (from + to - span) / 2));
    [this.from, this.to] = [start, start + span];
    this._changed();
  }

  zoom(factor, around = this._cursorX()) {
    const share = (around - this.from) / (this.to - this.from);
    const span = (this.to - this.from) * factor;
    this.look(around - share * span, around + (1 - share) * span);
  }

  // Show an invocation with its neighbours, and say what it was.
  visit(row) {
    const x = this.xs[row];
    const [low, high] = this.bounds;
    const span = Math.min(this.to - this.from, Math.max((high - low) / 20, this.axis === "number" ? 60 : 0));
    if (x < this.from || x > this.to || this.to - this.from > span * 1.01) this.look(x - span / 2, x + span / 2);
    this.point(row);
  }

  point(row) {
    this.cursor = Math.max(-1, Math.min(this.environment.count - 1, row));
    this._aim();
    this._tell();
  }

  toggle(key) {
    if (!this.hidden.delete(key)) this.hidden.add(key);
    const place = this.series.findIndex((series) => series.key === key);
    if (place >= 0) this.plot.setSeries(place + 1, { show: !this.hidden.has(key) });
    this.draw();
  }

  get zoomed() {
    const [low, high] = this.bounds;
    return this.to - this.from < (high - low) * 0.999;
  }

  // Which invocations are in view: [from, to).
  visible() {
    return [lowerBound(this.xs, this.from), lowerBound(this.xs, this.to + 1e-9)];
  }

  draw() {
    const [width, height] = [this.element.clientWidth, this.element.clientHeight];
    if (!width) return;
    if (!this.plot) this._build(width, height);
    else if (width !== this.plot.width || height !== this.plot.height) this.plot.setSize({ width, height });
    this._range(...this.visible());
    this.plot.batch(() => {
      this.plot.setScale("x", { min: this.from, max: this.to });
      this.plot.setScale("y", { min: this.low, max: this.high });
      this.plot.redraw(false, true); // also where nothing but a colour or a mark is another one
    });
    this._aim();
    this._drawStrip();
  }

  _build(width, height) {
    const ink = (name) => () => colours()(name);
    const byTime = this.axis === "time";
    const sparse = () => this.visible().reduce((begin, end) => end - begin) < width / 7;
    const axis = { font: FONT, stroke: ink("quiet"), ticks: { show: false } };
    this.plot = this.element.plot = new uPlot({
      width, height, ms: 1, tzDate: utc, padding: [LANE + 8, RIGHT, 0, 0], legend: { show: false },
      scales: { x: { time: byTime, auto: false }, y: { auto: false } },
      series: curves(this.environment, this.series, 1, (key, thick, colour) => ({
        show: !this.hidden.has(key),
        points: { show: () => key !== "mark" && sparse(), size: 1.4 * thick + 2, stroke: colour, fill: colour },
      })),
      axes: [
        { ...axis, size: BOTTOM, grid: { show: false }, space: byTime ? 95 : 80,
          filter: (plot, values) => values.map((value) => (byTime || (value >= 1 && value % 1 === 0) ? value : null)),
          values: (plot, values, _, space, step) => values.map((value) => value == null ? "" : byTime ? timeLabel(value, step) : whole(value)) },
        { ...axis, size: LEFT, space: 50, grid: { stroke: ink("grid"), width: 1 },
          values: (plot, values, _, space, step) => values.map((value) => step < 1 ? value.toFixed(Math.ceil(-Math.log10(step))) : whole(value)) },
      ],
      cursor: {
        y: false, drag: { setScale: false, dist: 4 }, points: { size: 9, width: 2.2, fill: ink("paper") },
        dataIdx: (plot, series, nearest) => (this.cursor < 0 ? nearest : this.cursor),
        move: (plot, left, top) => {
          if (left < 0) return [left, top];
          this.cursor = this.rowAt(left);
          this._tell();
          return [plot.valToPos(this.xs[this.cursor], "x"), top];
        },
        bind: {
          dblclick: () => () => this.all(),
          mouseleave: (plot, target, leave) => (event) => (leave(event), this.point(-1)),
        },
      },
      hooks: {
        drawAxes: [(plot) => over(plot, (context, place) => drawBelow(this, context, place))],
        draw: [(plot) => over(plot, (context, place) => drawMarks(this, context, place))],
        setSelect: [(plot) => {
          const { left, width: across } = plot.select;
          if (!across) return;
          plot.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
          this.look(this.valueAt(left), this.valueAt(left + across));
        }],
      },
    }, [this.xs, ...this.series.map(({ key }) => column(this.environment, key))], this.element);
  }

  _range(begin, end) {
    let [low, high] = [Infinity, -Infinity];
    const keys = this.series.map(({ key }) => key).filter((key) => !this.hidden.has(key));
    for (const key of this.hidden.has("peak") ? keys : [...keys, "upper"]) {
      const column = this.environment[key];
      for (let i = begin; column && i < end; i++) {
        if (column[i] < low) low = column[i];
        if (column[i] > high) high = column[i];
      }
    }
    const limit = this.hidden.has("limit") ? NaN : this.environment.limit;
    if (limit) high = Math.max(high, limit);
    if (high === -Infinity) [low, high] = [0, 1];
    const room = Math.max(0.02, (high - low) * 0.06);
    this.low = this.fit ? Math.max(0, low - room) : 0;
    this.high = this.fit ? high + room : high * 1.06 || 1;
  }

  _drawStrip() {
    const [low, high] = this.bounds;
    const last = (context) => {
      const [width, height] = [this.strip.clientWidth, this.strip.clientHeight];
      const [from, to] = [this.from, this.to].map((value) => ((value - low) / (high - low)) * width);
      context.fillStyle = colours()("paper");
      context.globalAlpha = 0.72;
      context.fillRect(0, 0, from, height);
      context.fillRect(to, 0, width - to, height);
      context.globalAlpha = 1;
      context.lineWidth = 1;
      context.strokeStyle = colours()("accent");
      context.strokeRect(Math.max(0.5, from), 0.5, Math.max(3, to - from - 1), height - 1);
    };
    sparkline(this.strip, this.environment, { ceiling: ceilingOf(this.environment), xs: this.xs, last });
  }

  // Of a pixel from the curves' left.
  valueAt(pixel) {
    return this.plot.posToVal(pixel, "x");
  }

  // The invocation that is meant at a pixel: of those near by, the one with the highest peak.
  rowAt(pixel) {
    const [begin, end] = this.visible();
    if (begin >= end) return -1;
    const [first, last] = [-REACH, REACH].map((aside) => lowerBound(this.xs, this.valueAt(pixel + aside)));
    const peak = this.environment.peak || this.environment.current;
    let chosen = -1;
    for (let i = Math.max(begin, first); i < Math.min(end, last); i++) {
      if (chosen < 0 || !(peak?.[i] <= peak?.[chosen])) chosen = peak?.[i] !== peak?.[i] && chosen >= 0 ? chosen : i;
    }
    if (chosen >= 0) return chosen;
    const next = Math.min(end - 1, Math.max(begin, first));
    const before = Math.max(begin, next - 1);
    const at = this.valueAt(pixel);
    return Math.abs(this.xs[next] - at) < Math.abs(this.xs[before] - at) ? next : before;
  }

  // The crosshair, where the keyboard or a search has put it.
  _aim() {
    const inView = this.cursor >= 0 && this.xs[this.cursor] >= this.from && this.xs[this.cursor] <= this.to;
    this.plot?.setCursor({ left: inView ? this.plot.valToPos(this.xs[this.cursor], "x") : -10, top: inView ? 0 : -10 }, false);
  }

  _cursorX() {
    const x = this.cursor >= 0 ? this.xs[this.cursor] : NaN;
    return x >= this.from && x <= this.to ? x : (this.from + this.to) / 2;
  }

  _changed() {
    this.draw();
    this.onview?.();
    if (this.cursor >= 0) this._tell();
  }

  // What the cursor is on, and where; nothing while it is out of view.
  _tell() {
    const at = this.cursor >= 0 ? this.xs[this.cursor] : NaN;
    if (this.plot && at >= this.from && at <= this.to) this.onhover?.(this.cursor, LEFT + this.plot.valToPos(at, "x"));
    else this.onhover?.(-1, 0);
  }
}
