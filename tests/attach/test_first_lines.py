"""What docs/attach.md tells users to look for, and when."""

from testing.environment import Environment

FIRST_LINE = "truemem INFO method="


def test_record_comes_one_invocation_late() -> None:
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
