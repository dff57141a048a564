"""For all tests."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

# How long hypothesis takes to draw its first example says something about the machine alone.
for profile, examples in (("quick", 10), ("test", 100), ("nightly", 1000)):
    settings.register_profile(
        profile, max_examples=examples, suppress_health_check=[HealthCheck.too_slow], deadline=None
    )
settings.load_profile("test")


class ByFolder(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
    """In two processes, the tests of one folder stay together: its servers and builds are made once, and are nobody
    else's."""

    def _split_scope(self, nodeid: str) -> str:
        return nodeid.split("/")[1]


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> ByFolder:
    return ByFolder(config, log)
