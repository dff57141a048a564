// The large chart of one environment: zoom, pan, hover, keyboard. It knows nothing of the page around it.

const LANE = 18; // for the marks, above the curves
const BOTTOM = 24;
const LEFT = 52;
const RIGHT = 12;
const REACH = 3; // pixels beside the pointer in which the highest peak is the one that is meant

class Chart {
  constructor(environment, { onhover, onview }) {
    this.environment = environment;
    this.hidden = new Set(["limit"]);
    if (ceilingOf(environment) >= environment.limit) this.hidden.delete("limit");
    this.fit = false;
    this.cursor = -1;
    this.canvas = make("canvas", {
      class: "chart", tabindex: 0, role: "application", "aria-label": "Memory of each invocation",
      "aria-describedby": "readout", "aria-keyshortcuts": "ArrowLeft ArrowRight + - 0 n p t y",
    });
    this.strip = make("canvas", { class: "strip", "aria-hidden": "true" });
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
    this._redraw();
    this._tell();
  }

  toggle(key) {
    if (!this.hidden.delete(key)) this.hidden.add(key);
    this._redraw();
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
    this.width = this.canvas.clientWidth;
    this.height = this.canvas.clientHeight;
    if (!this.width) return;
    const context = (this.context = prepare(this.canvas, this.width, this.height));
    const colour = colours();
    const environment = this.environment;
    const [begin, end] = this.visible();
    // one beyond either edge, so that the curves go on to it
    const [from, to] = [Math.max(0, begin - 1), Math.min(environment.count, end + 1)];
    const shown = SERIES.filter(({ key }) => environment[key] && !this.hidden.has(key));
    this._range(shown, begin, end);
    const x = (value) => LEFT + ((value - this.from) / (this.to - this.from)) * (this.width - LEFT - RIGHT);
    const y = (value) => this.height - BOTTOM - ((value - this.low) / (this.high - this.low)) * (this.height - BOTTOM - LANE - 8);
    [this.x, this.y] = [x, y];

    context.font = "12px system-ui, sans-serif";
    drawAxes(this, context, colour);
    context.save();
    context.beginPath();
    context.rect(LEFT, LANE, this.width - LEFT - RIGHT, this.height - LANE - BOTTOM + 1);
    context.clip();
    context.lineJoin = "round";
    drawLimit(this, context, colour);
    if (environment.lower && environment.upper && !this.hidden.has("peak") && to > from) {
      context.fillStyle = colour("peak");
      context.globalAlpha = 0.28;
      band(context, this.xs, environment.lower, environment.upper, from, to, x, y);
      context.globalAlpha = 1;
    }
    const sparse = to - from < (this.width - LEFT) / 7;
    for (const { key, width } of shown) {
      context.strokeStyle = context.fillStyle = colour(key);
      context.lineWidth = width;
      trace(context, this.xs, environment[key], from, to, x, y);
      if (sparse && key !== "mark") dots(context, this.xs, environment[key], from, to, x, y, width + 1);
    }
    context.restore();
    drawMarks(this, context, colour, begin, end);
    if (this.cursor >= begin && this.cursor < end) drawCrosshair(this, context, colour, shown);
    if (this.selected) drawSelection(this, context, colour);
    this._drawStrip(colour);
  }

  _range(shown, begin, end) {
    let [low, high] = [Infinity, -Infinity];
    const keys = shown.map(({ key }) => key);
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

  _drawStrip(colour) {
    const [width, height] = [this.strip.clientWidth, this.strip.clientHeight];
    if (!width) return;
    sparkline(this.strip, this.environment, { width, height, ceiling: ceilingOf(this.environment), xs: this.xs });
    const [low, high] = this.bounds;
    const x = (value) => ((value - low) / (high - low)) * width;
    const context = this.strip.getContext("2d");
    context.fillStyle = colour("paper");
    context.globalAlpha = 0.72;
    context.fillRect(0, 0, x(this.from), height);
    context.fillRect(x(this.to), 0, width - x(this.to), height);
    context.globalAlpha = 1;
    context.strokeStyle = colour("accent");
    context.strokeRect(Math.max(0.5, x(this.from)), 0.5, Math.max(3, x(this.to) - x(this.from) - 1), height - 1);
  }

  valueAt(pixel) {
    return this.from + ((pixel - LEFT) / (this.width - LEFT - RIGHT)) * (this.to - this.from);
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
    return Math.abs(this.x(this.xs[next]) - pixel) < Math.abs(this.x(this.xs[before]) - pixel) ? next : before;
  }

  _place(row) {
    if (!this.x) return { x: 0, y: 0 };
    return { x: this.x(this.xs[row]), y: this.y(this.environment.peak?.[row] ?? this.low) };
  }

  _cursorX() {
    const x = this.cursor >= 0 ? this.xs[this.cursor] : NaN;
    return x >= this.from && x <= this.to ? x : (this.from + this.to) / 2;
  }

  _changed() {
    this._redraw();
    this.onview?.();
    if (this.cursor >= 0) this._tell();
  }

  // What the cursor is on, and where; nothing while it is out of view.
  _tell() {
    const at = this.cursor >= 0 ? this.xs[this.cursor] : NaN;
    if (at >= this.from && at <= this.to) this.onhover?.(this.cursor, this._place(this.cursor));
    else this.onhover?.(-1, null);
  }

  _redraw() {
    if (this.canvas.clientWidth) this.draw();
  }
}
