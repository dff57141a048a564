"""The table of the platform: the installed models confirm it, and what it does not know is named as new."""

from datetime import date

import pytest
from truemem_workbench.support import platform_facts
from truemem_workbench.support.platform_facts import RUNTIMES, deprecated, language, newer_values, runtimes, version

from testing.platform_models import differences


@pytest.mark.nightly
def test_the_installed_models_say_the_same() -> None:
    assert [*differences()] == []


def test_each_kind_of_difference_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A comparison that finds nothing would pass each night."""
    before = {*differences()}
    monkeypatch.setitem(RUNTIMES, "python9.9", RUNTIMES["custom"])
    monkeypatch.setitem(RUNTIMES, "nodejs22.x", RUNTIMES["nodejs20.x"])
    monkeypatch.delitem(platform_facts.LOG_CLASSES, "DELIVERY")
    monkeypatch.setattr(platform_facts, "MOST_TIMEOUT_S", 60)
    monkeypatch.setattr("testing.platform_models.BOUNDS", (("MemorySize", "max", 10_240),))
    found = sorted(each.partition(":")[0] for each in {*differences()} - before)
    assert found == ["MemorySize, max", "Timeout on demand", "enum LogGroupClass", "enum Runtime", "nodejs22.x"]


def test_runtimes_are_ordered_by_version_not_by_text() -> None:
    assert runtimes("nodejs", (18,)) == ["nodejs18.x", "nodejs20.x", "nodejs22.x", "nodejs24.x", "nodejs26.x"]
    assert runtimes("python", (3, 9))[:2] == ["python3.9", "python3.10"]
    assert [version(name) for name in ("java17.al2023", "custom", "ruby4.0")] == [(17,), (), (4, 0)]


def test_a_runtime_newer_than_the_table_has_its_language() -> None:
    assert [language(name) for name in ("python3.16", "provided.al2027", "java29", "cobol85")] == [
        "python", "os-only", "java", None,
    ]  # fmt: skip


def test_deprecated_from_its_day_on() -> None:
    assert deprecated("nodejs20.x", date(2026, 4, 29)) is None
    assert deprecated("nodejs20.x", date(2026, 4, 30)) is RUNTIMES["nodejs20.x"]
    assert deprecated("custom", date(2099, 1, 1)) is None


def test_newer_values_are_named_and_known_ones_are_not() -> None:
    known = {"Runtime": "nodejs26.x", "PackageType": "Zip", "Architectures": ["arm64"], "TenancyConfig": None}
    assert [*newer_values(known)] == []
    newer = {"Runtime": "python3.16", "Architectures": ["riscv64"], "LoggingConfig": {"LogFormat": "CBOR"}}
    assert [*newer_values(newer)] == [("Runtime", "python3.16"), ("Architecture", "riscv64"), ("LogFormat", "CBOR")]
