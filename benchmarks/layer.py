"""Measures the layer: cold start, memory, time and CPU of an invocation, compared with other extensions.

Runs the layer of `make layer`. Writes results/DATE.md, results/layer.json (which `make gate` compares with), and the
tables of docs/overhead.md.

Exit codes: 0 measured, 2 not measured.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import click
from rich.console import Console

from benchmarks import added, cold_start, namespace, publish, running
from benchmarks.contenders import EXECUTABLE, FLOOR, GO, OURS, PLAIN, SOURCED, UNSAVED, contenders
from benchmarks.cost import SIZES_MIB, cost
from benchmarks.layer_tables import (
    Section,
    added_section,
    aims,
    answer_section,
    cost_section,
    growth_section,
    sampling_section,
    short_start,
    sizes_section,
    start_section,
)
from benchmarks.sizes import Sizes, measure_sizes

RESULTS = Path(__file__).with_name("results")
RATIOS = RESULTS / "layer.json"

GROWTH_INVOCATIONS = 20_000
SAMPLING_S = 20.0


def ratios(
    starts: Sequence[cold_start.Start], growths: Sequence[running.Growth], sizes: Sequence[Sizes]
) -> dict[str, float]:
    """What `make gate` compares: nothing that depends on the machine's speed alone."""
    by_name = {row.name: row for row in starts}
    ours = by_name[OURS]
    made = {}
    for other in (UNSAVED, SOURCED, PLAIN, FLOOR):
        made[f"exec to register, minimum, against {other}"] = ours.register_min / by_name[other].register_min
        made[f"exec to next, minimum, against {other}"] = ours.next_min / by_name[other].next_min
    made[f"CPU to next against {UNSAVED}"] = ours.cpu_median / by_name[UNSAVED].cpu_median
    made[f"PSS against {PLAIN}"] = growths[0].pss / by_name[PLAIN].pss
    made[f"private dirty against {PLAIN}"] = growths[0].private_dirty / by_name[PLAIN].private_dirty
    for row in sizes:
        made[f"zip, {row.architecture}, MB"] = row.zip_bytes / 1e6
        made[f"unpacked, {row.architecture}, MB"] = row.unpacked_bytes / 1e6
    return {name: round(value, 4) for name, value in made.items()}


def write_results(
    sections: Sequence[Section], start: Section, reached: list[list[str]], compared: dict[str, float]
) -> None:
    """results/DATE.md, results/layer.json, and the page's tables. `start` is the page's own."""
    today = f"{datetime.now(UTC):%Y-%m-%d}"
    aimed = publish.markdown(("figure", "aim", "reached", "met"), reached)
    body = "\n\n".join(
        f"## {title}\n\n{publish.markdown(headings, rows)}\n\n{text}" for title, headings, rows, text in sections
    )
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{today}.md").write_text(
        f"# The layer, {today}\n\n`make bench`, on {publish.machine()}. {namespace.described()}\n\n{aimed}\n\n{body}\n"
    )
    RATIOS.write_text(json.dumps({"machine": publish.machine(), "ratios": compared}, indent=1) + "\n")
    publish.replace(publish.ROOT / "docs" / "overhead.md", "aims", aimed)
    for name, section in (("start", start), ("cost", sections[-1])):
        _, headings, rows, text = section
        publish.replace(publish.ROOT / "docs" / "overhead.md", name, f"{publish.markdown(headings, rows)}\n\n{text}")


@click.command(help=__doc__)
@click.option("--rounds", default=cold_start.ROUNDS, show_default=True, help="Starts of each; all else in proportion.")
@click.option(
    "--go", type=click.Path(exists=True, path_type=Path), help=f"Compare with {GO}: a checkout, or its build."
)
@click.option("--write/--no-write", default=True, help="Write results and tables.")
def main(rounds: int, go: Path | None, write: bool) -> None:
    """See the module."""
    namespace.enter()
    part = rounds / cold_start.ROUNDS
    with tempfile.TemporaryDirectory() as folder, publish.measuring() as step:
        Path(folder).chmod(0o755)  # an extension runs as an ordinary user
        compared = contenders(Path(folder), go)
        ours = compared[0]
        advance = step("cold starts", len(compared) * (rounds + 1))
        starts = cold_start.measure(compared, rounds, advance)
        answers = running.scale(ours, round(500 * part), step("functions of all sizes", len(running.SCALE)))
        count = round(GROWTH_INVOCATIONS * part)
        growths = [running.growth(ours, count, step("own memory", count + 1000))]
        advance = step("sampling", 2)
        samplings = []
        for memory_mib in (128, running.VCPU_MIB):
            samplings.append(running.sampling(ours, memory_mib, max(2, SAMPLING_S * part)))
            advance()
        blocks = max(2, round(25 * part))
        sides = {"floor": compared[-1].command[0], "with": EXECUTABLE}
        steps = (len(sides) + 1) * len(added.HANDLERS) * blocks
        addeds = added.measure({name: Path(path) for name, path in sides.items()}, blocks, step("added", steps))
        sizes = measure_sizes()
        line_bytes = addeds[0].line_bytes
        costs = [
            cost(mib, line_bytes, answers[0].cpu_ms, starts[0].register_median, growths[0].pss) for mib in SIZES_MIB
        ]
    sections = [
        start_section(starts),
        answer_section(answers),
        growth_section(growths),
        sampling_section(samplings),
        added_section(addeds),
        sizes_section(sizes),
        cost_section(costs, line_bytes),
    ]
    reached = aims(starts, growths, answers, samplings, addeds, sizes)
    console = Console(width=160)
    console.print(publish.shown("Aims", ("figure", "aim", "reached", "met"), reached))
    for title, headings, cells, _ in sections:
        console.print(publish.shown(title, headings, cells))
    if write:
        write_results(sections, short_start(starts), reached, ratios(starts, growths, sizes))


if __name__ == "__main__":
    main()
