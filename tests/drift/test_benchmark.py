"""The promises of the verdict's benchmark."""

import pytest

from benchmarks.drift import SIDECAR, WORKBENCH, Promise


@pytest.mark.parametrize(
    ("sidecar", "workbench", "kept"), [(0.9, 0.97, True), (0.9, 0.98, False), (0.89, 0.95, False), (0.95, None, False)]
)
def test_a_promise_is_kept_by_every_form_or_not_at_all(
    sidecar: float | None, workbench: float | None, kept: bool
) -> None:
    promise = Promise("intervals", 0.90, 0.97, {SIDECAR: sidecar, WORKBENCH: workbench})
    assert promise.aim() == "90% to 97%"
    assert promise.kept() is kept
