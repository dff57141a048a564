"""A function without a probe under the local Lambda: malloc's figures are on its lines, and the report's answer."""

from pathlib import Path

import pytest
from truemem.malloc import FIRST_READING

from testing.environment import Environment

FUNCTION = Path(__file__).with_name("functions") / "keeps.py"


READINGS, MOST = 2, 800
"""So many are waited for, and not longer than so many invocations: none is made of a process that runs."""


@pytest.mark.parametrize("exact", [False, True])
def test_a_leak_is_on_the_lines_of_a_function_without_a_probe(exact: bool) -> None:
    with Environment(FUNCTION, exact=exact) as running:
        for _ in range(MOST):
            running.invoke(kib=8)
            if "".join(running.local.extension_stdout(running.name)).count('"outside"') >= READINGS:
                break
        found = {record.invocation: record.heap for record in running.records() if record.heap}
    first, *_, last = sorted(found)
    assert first >= FIRST_READING
    assert {heap["source"] for heap in found.values()} == {"outside"}
    used = [found[number]["inUse"] + found[number]["mapped"] for number in (first, last)]
    assert (used[1] - used[0]) * 1024 == pytest.approx(8 * (last - first), rel=0.3)
