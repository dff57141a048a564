"""Measures the cold start: the time from exec to the register request, and to the first `next`.

With --profile it says where the time goes, with Linux's own profiler (perf, as root), and writes results/start.md.
Without it nothing is written: `make bench` does that.

Exit codes: 0 measured, 2 not measured.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import click
from rich.console import Console

from benchmarks import namespace, publish
from benchmarks.cold_start import ROUNDS, measure
from benchmarks.contenders import GO, contenders
from benchmarks.layer_tables import start_section
from benchmarks.start_profile import profile_section

RESULTS = Path(__file__).with_name("results") / "start.md"


@click.command(help=__doc__)
@click.option("--profile", is_flag=True, help="Say where the time goes.")
@click.option("--rounds", default=ROUNDS, show_default=True, help="Starts of each.")
@click.option(
    "--go", type=click.Path(exists=True, path_type=Path), help=f"Compare with {GO}: a checkout, or its build."
)
@click.option("--write/--no-write", default=True, help="Write results/start.md.")
def main(profile: bool, rounds: int, go: Path | None, write: bool) -> None:
    """See the module."""
    namespace.enter()
    with publish.measuring(), tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        if profile:
            title, headings, rows, text = profile_section(contenders(Path(folder)), 5 * rounds)
        else:
            title, headings, rows, text = start_section(measure(contenders(Path(folder), go), rounds, lambda: None))
    Console(width=160).print(publish.shown(title, headings, rows))
    if profile and write:
        made = f"`make bench`, on {publish.machine()}.\n\n{publish.markdown(headings, rows)}\n\n{text}"
        RESULTS.write_text(f"# {title}\n\n{made}\n")


if __name__ == "__main__":
    main()
