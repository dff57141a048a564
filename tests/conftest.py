"""For all tests."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# How long hypothesis takes to draw its first example says something about the machine alone.
settings.register_profile("any-machine", suppress_health_check=[HealthCheck.too_slow], deadline=None)
settings.load_profile("any-machine")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """In two processes, the tests of one folder stay together: its servers and builds are made once, and are nobody
    else's."""
    here = Path(__file__).parent
    for item in items:
        item.add_marker(pytest.mark.xdist_group(item.path.relative_to(here).parts[0]))
