// All environments at once, small: the most urgent first.

const AT_ONCE = 120; // cards; more on demand

const ORDERS = {
  "most urgent first": () => 0,
  "highest peak": (a, b) => highest(b.peak) - highest(a.peak),
  "fastest growth": (a, b) => (b.finding.perInvocationKiB ?? -Infinity) - (a.finding.perInvocationKiB ?? -Infinity),
  "most invocations": (a, b) => b.count - a.count,
  "newest": (a, b) => (firstKnown(b.time) || 0) - (firstKnown(a.time) || 0),
};

function overview(data, { find, state }) {
  const grid = make("div", { class: "grid" });
  const more = make("button", { type: "button", class: "more" });
  const chips = make("div", { class: "chips", role: "group", "aria-label": "Causes" });
  const search = make("input", { type: "search", placeholder: "environment, function or request id", "aria-label": "Search", value: state.text });
  const order = make("select", { "aria-label": "Order" }, ...Object.keys(ORDERS).map((name) => make("option", {}, name)));
  const same = make("input", { type: "checkbox" });
  [order.value, same.checked] = [state.order, state.same];
  let cards = [];

  const draw = () => {
    const common = same.checked ? Math.max(...data.environments.map(ceilingOf)) : 0;
    for (const { small, environment } of cards) {
      environment.numbers ??= Float64Array.from(environment.number);
      sparkline(small, environment, { ceiling: common || ceilingOf(environment), xs: environment.numbers });
    }
  };
  const fill = () => {
    Object.assign(state, { text: search.value, order: order.value, same: same.checked });
    const wanted = search.value.trim().toLowerCase();
    const shown = data.environments.filter((each) =>
      (!state.cause || kinds(each).includes(state.cause)) &&
      `${each.function} ${each.id} ${each.version}`.toLowerCase().includes(wanted));
    shown.sort((a, b) => ORDERS[order.value](a, b) || a.index - b.index);
    cards = shown.slice(0, state.most).map((environment) => ({ environment, ...card(environment) }));
    forget(grid);
    grid.replaceChildren(...cards.map(({ element }) => element));
    if (!shown.length) grid.append(make("p", { class: "none" }, "No environment is called that. Enter looks for a request with this id."));
    more.hidden = shown.length <= state.most;
    more.textContent = `${whole(shown.length - state.most)} more`;
    for (const chip of chips.children) chip.setAttribute("aria-pressed", String(chip.dataset.kind === state.cause));
    draw();
  };

  const tally = new Map();
  for (const each of data.environments) for (const kind of kinds(each)) tally.set(kind, (tally.get(kind) || 0) + 1);
  for (const [kind, number] of tally) {
    const chip = make("button", { type: "button", class: `badge ${kind.replaceAll(" ", "-")}`, "data-kind": kind }, `${whole(number)} ${kind}`);
    chip.addEventListener("click", () => ((state.cause = state.cause === kind ? "" : kind), fill()));
    chips.append(chip);
  }
  search.addEventListener("input", fill);
  search.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && search.value.trim()) find(search.value.trim());
  });
  for (const input of [order, same]) input.addEventListener("change", fill);
  more.addEventListener("click", () => ((state.most += AT_ONCE), fill()));

  const element = make("section", { class: "overview" },
    make("div", { class: "bar" }, chips, make("div", { class: "tools" }, search, order, make("label", {}, same, "same scale"))),
    legendOfCards(), grid, more,
    data.leftOut ? make("p", { class: "none" }, `${plural(data.leftOut, "environment")} more did not fit into this page.`) : null);
  return { element, show: fill, draw };
}

// What an environment counts as, in the row of causes above the cards.
function kinds(environment) {
  const died = count(environment, FLAG.outOfMemory) ? ["out of memory"] : [];
  return [...died, environment.finding.cause];
}

function figure(name, value) {
  return make("span", {}, make("small", {}, name), " ", value);
}

function legendOfCards() {
  return make("p", { class: "key", "aria-hidden": "true" },
    ...SERIES.slice(0, 3).map((series) => make("span", {}, icon(series), series.name)),
    make("span", {}, icon({ key: "limit", width: 1.2 }), "memory size"));
}

function card(environment) {
  const died = count(environment, FLAG.outOfMemory);
  const small = make("div", { class: "small", role: "img", "aria-label": environment.finding.sentence });
  const element = make("a", { class: "card", href: `#${environment.index + 1}` },
    make("span", { class: "top" },
      make("b", {}, environment.function || "function", " ", make("code", { title: environment.id }, shortId(environment.id))),
      died ? make("span", { class: "badge out-of-memory" }, `${whole(died)} OOM`) : null,
      badge(environment)),
    small,
    make("span", { class: "figures" },
      figure("peak", mib(highest(environment.peak))),
      figure("current", mib(lastKnown(environment.current))),
      figure("mark", `${mib(lastKnown(environment.mark))}${environment.limit ? ` of ${mib(environment.limit)}` : ""}`),
      figure("invocations", whole(environment.count))));
  return { element, small };
}
