"""For all tests."""

from __future__ import annotations

import time

import pytest
from hypothesis import HealthCheck, settings
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

from tests.starvation import Watch

# How long hypothesis takes to draw its first example says something about the machine alone.
settings.register_profile("any-machine", suppress_health_check=[HealthCheck.too_slow], deadline=None)
settings.load_profile("any-machine")


class ByFolder(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
    """In two processes, the tests of one folder stay together: its servers and builds are made once, and are nobody
    else's."""

    def _split_scope(self, nodeid: str) -> str:
        return nodeid.split("/")[1]


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> ByFolder:
    return ByFolder(config, log)


class Starvation:
    """Runs a test that has failed again if the CPUs were taken away while it ran. Not in two processes, where the tests
    are about values: those take the CPUs from each other."""

    def __init__(self) -> None:
        self._watch = Watch()
        self._began = 0.0

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            item.add_marker(pytest.mark.flaky(reruns=2, condition=self._starved))

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self) -> None:
        self._began = time.monotonic()

    def _starved(self) -> bool:
        """If the test has failed: is it to run again?"""
        return self._watch.longest_ms(self._began) > 0

    def pytest_unconfigure(self) -> None:
        self._watch.close()


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput") and not config.getoption("numprocesses"):
        config.pluginmanager.register(Starvation())
