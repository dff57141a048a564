"""What docs/attach.md tells users to look for, and when."""

from __future__ import annotations

from truemem_workbench.testing.environment import Environment

from tests.attach.pages import DOCS

FIRST_LINE = "truemem INFO method="


def test_the_record_comes_one_invocation_late_and_the_first_line_before_it() -> None:
    with Environment(environment={"TRUEMEM_LOG_LEVEL": "info"}) as environment:
        environment.invoke(ms=20)
        environment.invoke(ms=20)
        first, _ = environment.records()
        lines = [line.text for line in environment.local.logs]
    (second_start,) = (
        line for line in lines if line.startswith(f"START RequestId: {environment.invocations[1].request_id}")
    )
    assert lines.index(first.line) > lines.index(second_start)
    assert first.line.startswith('{"_aws":')
    said = [at for at, line in enumerate(lines) if line.startswith(FIRST_LINE)]
    assert len(said) == 1
    assert said[0] < lines.index(first.line)
    assert any(line.split()[:5] == ["EXTENSION", "Name:", environment.name, "State:", "Ready"] for line in lines)


def test_switched_off_it_is_started_and_prints_nothing() -> None:
    with Environment(environment={"TRUEMEM_ENABLED": "false"}) as environment:
        environment.invoke()
        assert environment.records() == []
        assert environment.log() == ""
        lines = [line.text for line in environment.local.logs]
    assert any(line.startswith("EXTENSION") and environment.name in line for line in lines)


def test_a_setting_that_cannot_be_used_is_named() -> None:
    with Environment(environment={"TRUEMEM_JOURNAL": "perhaps"}) as environment:
        environment.invoke()
        environment.local.stop()
        log = environment.log()
    assert "truemem WARN TRUEMEM_JOURNAL" in log
    assert "`truemem WARN TRUEMEM_...`" in (DOCS / "attach.md").read_text()
