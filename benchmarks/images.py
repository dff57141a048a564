"""How accurate the figures are in container images: known amounts of memory, in a root of their own.

The workload is that of `accuracy`; the image is made by hand, with this machine's Python and AWS's runtime client. The
sidecar is beside the image, as `truemem check` has it, and in it, as `truemem layer-files` puts it. Needs root, or user
namespaces, and `make layer`. Two minutes.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

from truemem_workbench.target.resolve import resolve

from benchmarks.kit.bench import Bench, percentile, two
from benchmarks.kit.contenders import EXECUTABLE
from testing.environment import FUNCTIONS, SLACK_MIB, Environment
from testing.images import ENTRYPOINT, Made, docker_archive, packed, python_image, python_root
from testing.pages import Result, Table, markdown
from testing.workload import Judgement, events

TITLE = "Container images"
DOCS = "docs/local-lambda.md"
LIMIT_MIB, INVOCATIONS = 1024, 500
HEAD = ("the sidecar is", "records", "within bounds", "intervals", "exact: error p50", "max")


@dataclass(frozen=True)
class Case:
    """How the sidecar is put to the image."""

    in_image: bool = False
    exact: bool = True


CASES = {
    "beside it, exact mode": Case(),
    "in it, exact mode": Case(in_image=True),
    "beside it, default mode": Case(exact=False),
}


def made_in(folder: Path, case: Case) -> Path:
    """The archive of an image of the workload."""
    root = python_root(folder / "root")
    made = python_image(packed(root), (FUNCTIONS / "touch.py").read_bytes())
    if not case.in_image:
        return docker_archive(folder / "image.tar", {"touch:1": made})
    shutil.copytree(EXECUTABLE.parents[1], folder / "layer" / "opt")
    entrypoint = ["/opt/truemem/exact", *ENTRYPOINT]
    with_layer = Made([*made.layers, packed(folder / "layer")], {**made.config, "Entrypoint": entrypoint})
    return docker_archive(folder / "image.tar", {"touch:1": with_layer})


def measure(case: Case, bench: Bench, name: str) -> Sequence[Judgement]:
    """What was said of each invocation, compared with what the function knows of itself."""
    count = bench.count(INVOCATIONS, 20)
    advance = bench.step(name, count)
    with TemporaryDirectory(dir="/var/tmp") as folder:
        function = resolve(str(made_in(Path(folder), case))).function
        sidecar = function.image.outside("/opt/extensions/truemem") if case.in_image and function.image else EXECUTABLE
        with Environment(
            function, sidecar=sidecar, memory_mib=LIMIT_MIB, release="aws", exact=case.exact and not case.in_image
        ) as environment:
            environment.invoke()  # the cold start is not part of the comparison
            answers = []
            for event in islice(events(count), count):
                answers.append(environment.invoke(**event))
                advance()
            records = environment.told()
    return [Judgement(*each, LIMIT_MIB) for each in zip(records[1:], answers, strict=True)]


def is_kept(case: Case, seen: Sequence[Judgement]) -> bool:
    """Are the promises kept?"""
    modes = {each.record.mode for each in seen if case.exact}
    return all(each.honest for each in seen) and modes <= {"exact"}


def run(bench: Bench) -> Result:
    rows, broken = [], []
    for name in bench.chosen([*CASES]):
        seen = measure(CASES[name], bench, name)
        claimed = [abs(each.error) for each in seen if each.claims_exactness]
        raced = sum(bool(each.record.raced) for each in seen)
        inside = sum(each.within_bounds for each in seen)
        figures = [two(percentile(claimed, 50) if claimed else None), two(max(claimed, default=None))]
        rows.append([name, f"{len(seen):,}", f"{inside:,}", f"{raced:,}", *figures])
        broken += [name] * (not is_kept(CASES[name], seen))
    note = f"MiB. Bounds have {SLACK_MIB} MiB for the kernel's bookkeeping. The truth is the function's own."
    return Result([Table("", HEAD, rows, note)], broken, {(DOCS, "images"): markdown(HEAD, rows)})
