"""Notes that are the same in each run of a project."""

from truemem_workbench.support.conditions import Condition, folded


def test_what_is_so_in_each_run_is_one_note_and_the_last() -> None:
    python = Condition(
        "the handler runs with /app/.venv/bin/python (Python 3.12)", "Python 3.12 of /app/.venv/bin/python"
    )
    watched = Condition("no permission for a memory cgroup", "memory is watched, no kernel OOM kill")

    assert folded([python, "PORT is 8080", watched, python]) == [
        "PORT is 8080",
        "in each run here: Python 3.12 of /app/.venv/bin/python; memory is watched, no kernel OOM kill."
        " truemem local run says more",
    ]
    assert folded(["PORT is 8080"]) == ["PORT is 8080"]
