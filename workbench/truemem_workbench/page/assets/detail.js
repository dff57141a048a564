// One environment, large.

function detail(data, environment, { row = -1, axis = "number", go }) {
  const tip = make("div", { class: "tip", hidden: true });
  const readout = make("p", { id: "readout", class: "unseen", "aria-live": "polite" });
  const range = make("span", { class: "range" });
  const all = make("button", { type: "button", onclick: () => chart.all() }, "all");
  const chart = new Chart(environment, {
    onhover: (at, x) => {
      tip.hidden = at < 0;
      readout.textContent = at < 0 ? "" : spoken(environment, at);
      if (at < 0) return;
      tip.replaceChildren(...told(environment, at));
      // beside the pointer, never under it, never beyond the edge
      const width = chart.element.clientWidth;
      const right = x > width / 2;
      tip.style.left = right ? "auto" : `${x + 14}px`;
      tip.style.right = right ? `${width - x + 14}px` : "auto";
    },
    onview: () => {
      const [begin, end] = chart.visible();
      all.disabled = !chart.zoomed;
      range.textContent = chart.zoomed
        ? `${whole(end - begin)} of ${plural(environment.count, "invocation")}`
        : plural(environment.count, "invocation");
    },
  });
  const press = (button) => button.setAttribute("aria-pressed", button.getAttribute("aria-pressed") !== "true");
  const legend = make("div", { class: "legend", role: "group", "aria-label": "Curves and marks" });
  const item = (what, picture) => {
    const on = !chart.hidden.has(what.key);
    const button = make("button", { type: "button", title: what.title, "aria-pressed": String(on) }, picture, what.name);
    button.addEventListener("click", () => (press(button), chart.toggle(what.key)));
    legend.append(button);
  };
  for (const series of SERIES) if (environment[series.key]) item(series, icon(series));
  if (environment.limit) {
    const limit = { key: "limit", name: "memory size", title: "The function's limit", width: 1.2 };
    item(limit, icon(limit));
  }
  const marked = new Map();
  for (const flags of environment.flags) marked.set(markOf(flags), (marked.get(markOf(flags)) || 0) + 1);
  for (const mark of MARKS) {
    const found = marked.get(mark);
    if (found) item({ ...mark, name: `${mark.name} ${whole(found)}` }, icon(mark));
  }

  const byTime = make("button", { type: "button", "aria-pressed": String(axis === "time"), title: "Key t" }, "by time");
  byTime.disabled = !environment.time;
  byTime.addEventListener("click", () => (press(byTime), chart.by(chart.axis === "time" ? "number" : "time")));
  const fit = make("button", { type: "button", "aria-pressed": "false", title: "Key y: the axis need not begin at 0" }, "fit height");
  fit.addEventListener("click", () => (press(fit), (chart.fit = !chart.fit), chart.draw()));
  const tools = make("div", { class: "tools", role: "toolbar", "aria-label": "View" },
    range,
    make("button", { type: "button", "aria-label": "zoom in", title: "Key +, or drag over the chart", onclick: () => chart.zoom(0.5) }, "+"),
    make("button", { type: "button", "aria-label": "zoom out", title: "Key -", onclick: () => chart.zoom(2) }, "−"),
    all, byTime, fit);

  const stage = make("div", { class: "stage" }, chart.element, tip);
  const element = make("section", { class: "detail" },
    heading(data, environment, go),
    answerOf(environment),
    facts(environment),
    make("div", { class: "bar" }, legend, tools),
    stage, chart.strip, readout,
    make("p", { class: "hint" }, "Drag to zoom, double-click for all, Ctrl and wheel. With the chart in focus: ← → walk, " +
      "n p next mark, + − 0 zoom, t time, y height; Esc all environments."),
    noted(environment, chart));
  element.addEventListener("keydown", (event) => {
    if (event.key === "t" && !byTime.disabled) byTime.click();
    if (event.key === "y") fit.click();
  });
  if (axis === "time" && environment.time) chart.by("time");
  const show = () => {
    chart.draw();
    chart.onview();
    if (row >= 0) chart.visit(row);
    row = -1;
  };
  return { element, show, draw: () => chart.draw() };
}

function heading(data, environment, go) {
  const step = (by, sign, name) => {
    const other = data.environments[environment.index + by];
    return make("button", { type: "button", "aria-label": name, title: name, disabled: !other, onclick: () => go(other.index) }, sign);
  };
  return make("div", { class: "heading" },
    data.environments.length > 1 &&
      make("a", { class: "back", href: "#" }, `← all ${plural(data.environments.length, "environment")}`) || null,
    make("h2", { tabindex: -1 }, environment.function || "function", " ", make("code", {}, environment.id || "unknown")),
    data.environments.length > 1 ? make("span", { class: "steps" }, step(-1, "‹", "previous environment"), step(1, "›", "next environment")) : null);
}

function answerOf(environment) {
  const { topic, address, sentence } = environment.finding;
  const page = address ? make("a", { class: "where", href: address }, topic) : make("span", { class: "where" }, topic);
  const story = markStory(environment);
  return make("div", { class: "verdict" },
    make("p", {}, badge(environment), sentence, " ", topic ? page : null),
    story ? make("p", { class: "story" }, story) : null);
}

function badge(environment) {
  const { cause, grows } = environment.finding;
  return make("span", { class: `badge ${cause}${grows ? " grows" : ""}` }, cause);
}

function facts(environment) {
  const rows = [
    ["peak", withMib(highest(environment.peak)), `half below ${mib(median(environment.peak))}`],
    ["current", withMib(lastKnown(environment.current)), `at first ${mib(firstKnown(environment.current))}`],
    ["Max Memory Used", withMib(lastKnown(environment.mark)), "REPORT"],
    ["memory size", environment.limit ? withMib(environment.limit) : "–", environment.version ? `version ${environment.version}` : ""],
    ["out of memory", whole(count(environment, FLAG.outOfMemory)), `of ${plural(environment.count, "invocation")}`],
  ];
  if (Object.keys(environment.holders).length) rows.push(["held at the end", withMib(Object.values(environment.holders).reduce((a, b) => a + b, 0)), heldBy(environment)]);
  return make("dl", { class: "facts" }, ...rows.map(([name, value, more]) =>
    make("div", {}, make("dt", {}, name), make("dd", {}, value, make("small", {}, more)))));
}

// Of one invocation: request id, time, figures.
function told(environment, row) {
  const [low, top] = [environment.lower?.[row], environment.upper?.[row]];
  const open = low >= 0 && !(top >= 0);
  const bounds = top - low > 0.01 ? ` (${mib(low)} to ${mib(top)})` : open ? ` (${mib(low)} or more)` : "";
  const lines = SERIES.filter(({ key }) => environment[key]).map((series) =>
    make("tr", {}, make("th", {}, icon(series), series.name),
      make("td", {}, withMib(environment[series.key][row]) + (series.key === "peak" ? bounds : ""))));
  const flags = remarks(environment, row);
  const time = environment.time?.[row];
  const duration = environment.duration?.[row];
  return [
    make("strong", {}, `invocation ${whole(environment.number[row])}`),
    make("table", {}, ...lines),
    flags.length ? make("p", { class: "flags" }, flags.join(" · ")) : "",
    make("p", {}, [time === time && time != null ? instant(time, true) : "", duration >= 0 ? lasted(duration) : ""].filter(Boolean).join(" · ")),
    make("code", {}, environment.requestId(row) || "no request id"),
  ];
}

function spoken(environment, row) {
  const figures = SERIES.filter(({ key }) => environment[key]).map(({ key, name }) => `${name} ${withMib(environment[key][row])}`);
  return [`Invocation ${environment.number[row]}`, ...figures, ...remarks(environment, row), environment.requestId(row)].join(", ");
}

function noted(environment, chart) {
  const rows = notable(environment);
  if (!rows.length) return null;
  const head = ["invocation", "why", "time", "peak", "current", "request id"].map((name) => make("th", { scope: "col" }, name));
  const body = rows.map(([row, why]) => make("tr", {},
    make("td", {}, make("button", { type: "button", onclick: () => (chart.visit(row), chart.element.scrollIntoView({ block: "nearest" })) }, whole(environment.number[row]))),
    make("td", {}, why),
    make("td", {}, environment.time ? instant(environment.time[row]) : ""),
    make("td", {}, mib(environment.peak?.[row])),
    make("td", {}, mib(environment.current?.[row])),
    make("td", {}, make("code", {}, environment.requestId(row)))));
  return make("div", { class: "noted" }, make("h3", {}, "Worth a look"),
    make("table", {}, make("thead", {}, make("tr", {}, ...head)), make("tbody", {}, ...body)));
}
