"""For all tests."""

import compileall
import os
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

# How long hypothesis takes to draw its first example says something about the machine alone.
# Each run before a commit draws the same ones: a rare example would fail a change that has nothing to do with it. Each
# night draws new ones.
for profile, examples in (("quick", 10), ("test", 60), ("nightly", 1000)):
    settings.register_profile(
        profile,
        max_examples=examples,
        derandomize=profile != "nightly",
        suppress_health_check=[HealthCheck.too_slow],
        deadline=None,
    )
settings.load_profile("test")


ROOT = Path(__file__).parents[1]
sys.dont_write_bytecode = False  # pytest's asserts are compiled once, not by each process of each run: 8 s


def pytest_configure(config: pytest.Config) -> None:
    """Compiles the sidecar and the commands, once. The local Lambda's processes may not write beside the sources, and
    with PYTHONDONTWRITEBYTECODE none does: each would compile what it imports, which takes a sidecar 65 ms."""
    os.environ.pop("COLUMNS", None)  # xdist's own; with it commands take a pipe for a terminal
    if not hasattr(config, "workerinput"):
        for folder in ("extension", "workbench"):
            compileall.compile_dir(ROOT / folder, quiet=2)


BUILDS = ("install", "layer", "sample", "template")
"""Folders whose files share what takes long to build: each stays in one process, and begins early."""


class Together(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
    """Keeps the tests of such a folder, or of one file, in one process."""

    def _split_scope(self, nodeid: str) -> str:
        _, folder, *rest = nodeid.partition("::")[0].split("/")
        return folder if folder in BUILDS else "/".join([folder, *rest])


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.path.parent.name not in BUILDS)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Together:
    return Together(config, log)
