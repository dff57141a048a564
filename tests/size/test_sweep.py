"""The sweep at work: real functions at several sizes under the local Lambda."""

import json
from pathlib import Path

import pytest
from truemem_workbench.judge.finding import Commands
from truemem_workbench.size import local_sweep
from truemem_workbench.size.local_sweep import LocalSweep, Plan, Sweep
from truemem_workbench.support.exit_codes import Ended
from truemem_workbench.support.terminal import Progress
from truemem_workbench.target.resolve import resolve

from tests.size.conftest import HASHING, Size

COMPUTES = {"rounds": 20_000}
NEEDS_130 = COMPUTES | {"mib": 130}


def test_a_size_that_kills_does_not_end_the_sweep(invoke_size: Size, tmp_path: Path) -> None:
    picture, events = tmp_path / "sizes.png", tmp_path / "events.jsonl"
    events.write_text(json.dumps(NEEDS_130))
    options = ["--memory", "512,128,1024", "--invocations", 2, "--warm-up", 1, "--events", events, "--output", picture]
    done = invoke_size(HASHING, *options, "--strategy", "speed", "--json")
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)
    killed, small, large = document["sizes"]
    assert [each["memory"] for each in document["sizes"]] == [128, 512, 1024]
    assert list(killed["against"]) == ["killed"]
    assert (killed["errors"], killed["invocations"]) == (1, 1)  # more of them would say no more
    assert (small["errors"], small["invocations"]) == (0, 6)  # three to see the peak, three for the duration
    assert (large["errors"], large["invocations"]) == (0, 6)
    assert 130 < small["peak"] < 200
    assert small["initMs"] > 0
    assert small["headroom"] == pytest.approx(512 / (small["peak"] + small["others"]) - 1, abs=0.001)
    suggested = document["suggested"]  # on a busy machine it may be the smaller one
    assert suggested in (512, 1024)
    assert document["next"] == f"truemem check {HASHING} --events {events} --memory {suggested}"
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_where_memory_grows_no_size_is_tried(invoke_size: Size, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("KEPT = []\n\ndef handler(event, context):\n    KEPT.append(bytes(30_000))\n")
    done = invoke_size(str(tmp_path / "app.py:handler"), "--memory", "128,512")
    assert done.exit_code == 1
    assert "No size is suggested: memory grows, so none is safe for long." in done.stdout
    assert "- Leak: 29." in done.stdout
    assert "not tried" not in done.stdout
    assert "Next: truemem explain" in done.stdout


def test_sizes_begin_above_the_peak(invoke_size: Size, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_sweep, "LADDER", (128, 256, 20_000))
    done = invoke_size(HASHING, "--event", '{"mib": 100}', "--invocations", 1, "--warm-up", 1)
    assert done.exit_code == 0, done.output
    assert " 192 " in done.stdout  # 100 of the event and 32 of Python and sidecar, with a fifth
    assert " 256 " in done.stdout
    assert " 128 " not in done.stdout
    assert "20,000 MB cannot be tried here" in " ".join(done.stdout.split())
    assert f"Next: truemem check {HASHING} --event '{{\"mib\": 100}}' --memory " in done.stdout


def test_a_function_that_always_fails_says_so_at_once(invoke_size: Size) -> None:
    done = invoke_size(HASHING, "--event", '{"fail": true}')
    assert done.exit_code == 2
    assert "Failing: 5 of 5 invocations failed." in done.stdout
    assert 'raise ValueError("as told")' in done.stdout
    assert done.stdout.endswith(f"Next: truemem local run {HASHING} --event '{{\"fail\": true}}'\n")


def test_ctrl_c_ends_with_what_is_known() -> None:
    def interrupted(doing: str, done: int, of: int) -> None:
        if doing == "128 MB" and done == 5:  # of 12: the second round
            raise Ended(2)

    swept = sweep(interrupted, Plan(invocations=5, warm_up=1), [128, 256])
    assert swept.signal == 2
    assert [(each.memory, len(each.durations)) for each in swept.trials] == [(128, 2), (256, 1)]
    assert swept.trials[0].peak is not None


def test_ctrl_c_while_it_looks_leaves_other_sizes_untried() -> None:
    def interrupted(doing: str, done: int, of: int) -> None:
        if doing == "peak at 128 MB" and done == of:
            raise Ended(2)

    swept = sweep(interrupted, Plan(invocations=1, warm_up=1), [128, 256])
    assert [(each.memory, each.is_tried) for each in swept.trials] == [(128, False), (256, False)]


def sweep(progress: Progress, plan: Plan, sizes: list[int]) -> Sweep:
    return LocalSweep(resolve(HASHING), [{}], plan, Commands(again="truemem check"), progress).run(sizes)
