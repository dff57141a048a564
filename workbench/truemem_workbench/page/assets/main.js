// Which view is open is the address's fragment: nothing for all environments, #3 for the third, #3/1024 for a row of it.

const THEMES = ["system", "light", "dark"];

async function main() {
  const data = await load();
  const stage = document.getElementById("main");
  const state = { text: "", order: "most urgent first", same: false, cause: "", most: AT_ONCE };
  let view = null;

  const open = () => {
    const [index, row] = location.hash.slice(1).split("/").map(Number);
    const single = data.environments.length === 1;
    const environment = data.environments[single ? 0 : index - 1];
    const go = (to) => (location.hash = `#${to + 1}`);
    const from = view;
    view = environment
      ? detail(data, environment, { row: row > 0 ? row - 1 : -1, go })
      : overview(data, { find, state });
    forget(stage);
    stage.replaceChildren(view.element);
    view.show();
    if (from && environment) view.element.querySelector("h2").focus({ preventScroll: true });
    scrollTo(0, environment || !from ? 0 : state.scroll || 0);
  };
  const find = (text) => {
    const row = findRequest(data, text);
    const environment = data.environments.findLast((each) => row >= each.start);
    if (row >= 0) location.hash = `#${environment.index + 1}/${row - environment.start + 1}`;
    else if (document.querySelectorAll(".card").length === 1) document.querySelector(".card").click();
  };

  introduce(data);
  if (!data.environments.length) {
    stage.replaceChildren(make("p", { class: "none" }, "None of the sidecar's lines was there to draw."));
  } else {
    open();
    addEventListener("hashchange", open);
    addEventListener("scroll", () => location.hash.length < 2 && (state.scroll = scrollY), { passive: true });
    addEventListener("keydown", (event) => {
      if (event.key === "Escape" && location.hash.length > 1) location.hash = "";
    });
    new ResizeObserver(() => view.draw()).observe(stage);
    // paper is white: the canvases are drawn again in light colours, and back again
    addEventListener("beforeprint", () => (document.documentElement.dataset.print = "", view.draw()));
    addEventListener("afterprint", () => (delete document.documentElement.dataset.print, view.draw()));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => view.draw());
  }
  themes(() => view?.draw());
  document.documentElement.dataset.ready = "";
}

function introduce(data) {
  const functions = [...new Set(data.environments.map((each) => each.function))];
  const title = functions.length === 1 ? functions[0] || "function" : plural(functions.length, "function");
  const times = data.environments.flatMap((each) => [firstKnown(each.time), lastKnown(each.time)]).filter((ms) => ms === ms);
  const span = times.length ? [Math.min(...times), Math.max(...times)] : null;
  document.title = `${title}: memory`;
  document.querySelector("h1").textContent = title;
  document.getElementById("span").textContent = [
    plural(data.environments.length, "environment"),
    plural(data.count, "invocation"),
    span && `${instant(span[0])}${span[1] > span[0] ? `, for ${lasted(span[1] - span[0])}` : ""}`,
    data.note,
  ].filter(Boolean).join(" · ");
  document.getElementById("foot").textContent =
    "truemem: each invocation's own memory, beside the mark that never falls. Sizes are MiB. This file loads nothing from anywhere.";
}

function themes(redraw) {
  const button = document.getElementById("theme");
  let chosen = 0;
  const apply = () => {
    if (chosen) document.documentElement.dataset.theme = THEMES[chosen];
    else delete document.documentElement.dataset.theme;
    button.textContent = `${["◐", "☀", "☾"][chosen]} ${THEMES[chosen]}`;
    button.setAttribute("aria-label", `Colours: ${THEMES[chosen]}`);
    redraw();
  };
  button.addEventListener("click", () => ((chosen = (chosen + 1) % THEMES.length), apply()));
  apply();
}

main();
