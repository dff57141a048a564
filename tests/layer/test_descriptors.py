"""Started with standard descriptors that are closed, or a directory: the executable serves, and mixes nothing up."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest
from truemem_workbench.testing.environment import SOURCE, Environment

from tests.layer.built import Layer, in_an_empty_root, script
from tests.layer.test_anywhere import IN_ITS_OWN_NAMESPACE, root_only

WAYS = ["<&-", "</", ">&-", "2>&-", "<&- >&- 2>&-"]


def serves(extension: Path, closed: str, user: Literal["auto", "current"] = "auto") -> None:
    """Registered, called, and shut down in order; what it has to say comes where that is still open."""
    with Environment(sidecar=extension, user=user) as environment:
        for number in range(2):
            assert environment.invoke(mib=number)["touched"] == number * 1024
        records = environment.records()
        log = environment.log()
    assert len(records) == (0 if ">&-" in closed.replace("2>&-", "") else 2)
    assert ("method=" in log) == ("2>&-" not in closed)
    assert not any(record.dropped for record in records)  # nothing of the log went to the Extensions API


@pytest.mark.parametrize("closed", WAYS)
def test_closed_or_a_directory(native: Layer, tmp_path: Path, closed: str) -> None:
    serves(script(tmp_path, f"exec {native.executable} {closed}"), closed)


@pytest.mark.parametrize("closed", ["</", "<&- >&- 2>&-"])
def test_the_source_as_well(tmp_path: Path, closed: str) -> None:
    serves(script(tmp_path, f"exec {SOURCE} {closed}", name="run"), closed)


@root_only
def test_where_there_is_no_dev_null(native: Layer, tmp_path: Path) -> None:
    inside = in_an_empty_root(native, tmp_path / "root")
    closed = "<&- >&- 2>&-"
    serves(script(tmp_path, f"{IN_ITS_OWN_NAMESPACE} '{inside}' {closed}"), closed, user="current")
