"""The command `truemem demo`, which replays the incident."""

from __future__ import annotations

from pathlib import Path

import click

from ..demo.workload import working_day
from ..support.bad_input import need, need_linux
from ..support.platform_facts import LEAST_MIB, MOST_MIB

EPILOG = """
\b
Examples:
  truemem demo
  truemem demo --repairs
  truemem demo --invocations 20 --memory 512 --output incident

Exit codes: 0, replayed; 2, the input cannot be used or nothing was measured, and one line says why.
"""


@click.command(epilog=EPILOG, context_settings={"max_content_width": 100})
@click.option("--invocations", type=click.IntRange(1, 10_000), default=160, show_default=True)
@click.option("--memory", type=click.IntRange(LEAST_MIB, MOST_MIB), default=1024, show_default=True, help="MiB.")
@click.option(
    "--output",
    type=click.Path(path_type=Path),
    default=Path("demo-output"),
    show_default=True,
    help="Folder for the picture and the raw lines.",
)
@click.option("--json", "as_document", is_flag=True, help="One JSON document on stdout, no table.")
@click.option(
    "--load-from",
    type=click.Choice(["bytes", "path"]),
    default="bytes",
    show_default=True,
    help="How a model is loaded; the incident's way is bytes.",
)
@click.option("--cache-size", type=click.IntRange(0, 40), default=16, show_default=True, help="Sessions kept.")
@click.option("--pop-before-load", is_flag=True, help="Drop a session before the next is loaded.")
@click.option(
    "--mmap-threshold",
    type=click.IntRange(0, 32 * 1024 * 1024),
    help="malloc's, in bytes [default: glibc's own, which changes]. Try 32768.",
)
@click.option("--repairs", is_flag=True, help="Also run each repair with the same calls: up to five more runs.")
def demo(
    invocations: int,
    memory: int,
    output: Path,
    as_document: bool,
    load_from: str,
    cache_size: int,
    pop_before_load: bool,
    mmap_threshold: int | None,
    repairs: bool,
) -> None:
    """Replay the ONNX incident under the local Lambda, with the sidecar attached.

    Prints each invocation's own memory beside Max Memory Used, says what that means, and writes a picture and
    the raw EMF lines to a folder. Needs no AWS account.
    """
    need_linux("the demo")
    need("demo")
    from ..demo.replay import replay

    calls = working_day(invocations)
    variables = {
        "LOAD_FROM": load_from,
        "CACHE_SIZE": str(cache_size),
        "POP_BEFORE_LOAD": str(pop_before_load).lower(),
        **({} if mmap_threshold is None else {"MMAP_THRESHOLD": str(mmap_threshold)}),
    }
    replay(calls, variables, memory_mib=memory, output=output, as_document=as_document, repairs=repairs)
