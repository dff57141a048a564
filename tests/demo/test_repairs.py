"""What each repair is worth, beside the run that it repairs."""

from rich.console import Console
from truemem_workbench.demo.replay import REPAIRS, Level, chosen, effects, largest, level
from truemem_workbench.judge.heap import Heap

from tests.demo.conftest import MakeRow

INCIDENT = {"LOAD_FROM": "bytes", "CACHE_SIZE": "16", "POP_BEFORE_LOAD": "false"}


def test_each_repair_changes_one_setting_and_the_last_run_all() -> None:
    runs = chosen(INCIDENT)
    assert list(runs) == [*REPAIRS, "all of them"]
    for words in REPAIRS:
        assert len(runs[words].items() - INCIDENT.items()) == 1, words
    all_of_them = {"LOAD_FROM": "path", "CACHE_SIZE": "8", "POP_BEFORE_LOAD": "true", "MMAP_THRESHOLD": "32768"}
    assert runs["all of them"] == all_of_them


def test_what_is_repaired_already_is_not_run_again() -> None:
    repaired = chosen(INCIDENT)["all of them"]
    assert chosen(repaired) == {}
    assert list(chosen({**repaired, "LOAD_FROM": "bytes"})) == ["a file, not its bytes"]


def test_the_table_says_what_was_and_what_is_and_fits_a_terminal(make_row: MakeRow) -> None:
    def run(current: float, held: float | None) -> Level:
        heap = {} if held is None else {"heap": {"inUse": 60, "held": held, "mapped": 40}}
        found = level([make_row(n, peak=1000, current=current, mark=1200, **heap) for n in range(1, 21)])
        assert found is not None
        return found

    console = Console(width=80)
    table = effects(run(1290, 34), {"blocks from 32 KiB mapped": run(1266, 2), "no probe": run(1266, None)})
    with console.capture() as captured:
        console.print(table)
    *_, mapped, bare = [line for line in captured.get().splitlines() if "→" in line]
    assert mapped.strip().startswith("blocks from 32 KiB mapped  ")
    changes = [part.strip() for part in mapped.split("  ") if "→" in part]
    assert changes == ["1290 → 1266", "1200 → 1200", "100 → 100", "34 → 2"]
    assert bare.split()[-2:] == ["-", "-"]
    assert "…" not in captured.get()


def test_the_repair_with_the_largest_effect_is_named() -> None:
    def run(current: float, held: float, mark: float = 1200) -> Level:
        return Level(current=current, mark=mark, heap=Heap(used=100, held=held))

    after = {"a cache of 8": run(900, 33), "blocks from 32 KiB mapped": run(1266, 2), "all of them": run(500, 1)}
    assert largest(run(1290, 34), after) == [
        "Most for what it leaves behind: a cache of 8, 1290 → 900 MiB.",
        "Most for what malloc holds: blocks from 32 KiB mapped, 34 → 2 MiB.",
    ]


def test_a_run_without_records_has_no_level() -> None:
    assert level([]) is None
