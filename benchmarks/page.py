"""Measures how a page's size and drawing time grow, in the browser of the tests.

`python -m benchmarks.page` writes benchmarks/results/page.md. Times are of this machine; only their ratio matters.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from truemem_workbench import page

from benchmarks.publish import ROOT
from testing.browser import Browser, chromium
from testing.invented_lines import noisy, recorded

RESULT = ROOT / "benchmarks" / "results" / "page.md"
SIZES = (1_000, 10_000, 100_000)
DRAWINGS = 21

MEASURE = f"""
(async () => {{
  const chart = new Chart((await load()).environments[0], {{}});
  document.querySelector(".stage").append(chart.canvas);
  const times = [];
  for (let i = 0; i < {DRAWINGS}; i++) {{
    const begin = performance.now();
    chart.draw();
    chart.context.getImageData(0, 0, 1, 1); // wait for it
    times.push(performance.now() - begin);
  }}
  return times.sort((a, b) => a - b)[{DRAWINGS // 2}];
}})()
"""


def measured(browser: Browser, invocations: int, folder: Path) -> tuple[int, float]:
    """Bytes of the page, and milliseconds of a drawing, the middle of several."""
    path = folder / f"{invocations}.html"
    page.write(page.gather(recorded(noisy(invocations))), path)
    browser.open(path)
    answer = browser.do("Runtime.evaluate", expression=MEASURE, awaitPromise=True)
    return path.stat().st_size, float(answer["result"]["value"])


def main() -> None:
    """Measure, and write the table."""
    program, variables = chromium()
    with tempfile.TemporaryDirectory() as name, Browser(program, variables) as browser:
        rows = [(size, *measured(browser, size, Path(name))) for size in SIZES]
    base = rows[0][2]
    lines = [
        "# A page as it grows",
        "",
        f"`python -m benchmarks.page`: one environment, headless Chromium, median of {DRAWINGS} drawings of the whole"
        " chart.",
        "",
        "| invocations | page, KiB | one drawing, ms | against 1,000 |",
        "|---:|---:|---:|---:|",
        *(f"| {size:,} | {length / 1024:,.0f} | {ms:.1f} | {ms / base:.1f} |" for size, length, ms in rows),
    ]
    RESULT.write_text("\n".join(lines) + "\n")
    print(RESULT.read_text())


if __name__ == "__main__":
    main()
