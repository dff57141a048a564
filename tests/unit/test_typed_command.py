"""A command that is said is a command that can be typed."""

import shlex

from hypothesis import given
from hypothesis import strategies as st
from truemem_workbench.support.typed_command import Command

OPTION = st.tuples(st.sampled_from(["--env", "--memory", "--json"]), st.one_of(st.none(), st.text()))


@given(st.lists(st.text(min_size=1)), st.lists(OPTION))
def test_a_shell_reads_the_words_that_were_given(arguments: list[str], options: list[tuple[str, str | None]]) -> None:
    words = [word for option in options for word in option if word is not None]
    typed = str(Command("local run", tuple(arguments), tuple(options)))
    assert shlex.split(typed) == ["truemem", "local", "run", *arguments, *words]


def test_another_command_keeps_what_was_given() -> None:
    given = Command("check", ("app.py:handler",)).with_option("--env", "A=1").with_option("--env", "B=x y")
    assert str(given.named("explain")) == "truemem explain app.py:handler --env A=1 --env 'B=x y'"
    assert str(given.without("--env").with_option("--json")) == "truemem check app.py:handler --json"
    assert str(given.bare()) == "truemem check app.py:handler"
    assert given.has("--env") and not given.has("--json")
