"""When the preload is asked for lines, what is believed of its answer, and what the line of the log says."""

import json
import os
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from truemem.batch import BatchLines
from truemem.config import Config
from truemem.drift import Drift
from truemem.journal import Journal
from truemem.line_schema import MEMBERS
from truemem.lines import (
    CPU_PERCENT,
    LEFT_MS,
    LINES_NOTE,
    PATIENCE_INVOCATIONS,
    PROFILED_INVOCATIONS,
    REQUEST_PREFIX,
    Growing,
    GrowthLines,
    door,
)
from truemem.lines.answer import MOST_ANSWER_BYTES, MOST_FRAMES, MOST_LINES, MOST_NAME_CHARS, parse
from truemem.records.pending_record import DeathReport, EnvironmentState, PendingRecord
from truemem.records.record import finished
from truemem.verdict import GROWING, GROWING_FROM, LeakVerdict
from truemem.wings import IN_USE_NOTE, InUse, Site, Wings

from testing.emf_check import valid_emf
from tests.records import ENVIRON, fits, printed, publisher_of, record
from tests.report.profiled import PROFILE

MEMORY_MIB = 512
PID, OTHER = 4_000_100, 4_000_200
"""Above the largest pid of a machine."""
LEAK_KIB = 40
MANY = GROWING_FROM + 40
LINE = {
    "file": "app.mjs",
    "line": 12,
    "function": "save",
    "perInvocationKiB": 39.1,
    "share": 0.97,
    "stack": ["app.mjs:30 handler", "app.mjs:12 save"],
}
ANSWER = {**PROFILE, "lines": [LINE]}
UNREADABLE = {"growthProfile": {"gaveUp": "the answer cannot be read"}}


def site(folder: Path, table: Any = None, managed: bool = False, **settings: Any) -> Site:
    variables = {"AWS_LAMBDA_FUNCTION_MEMORY_SIZE": str(MEMORY_MIB), "TMPDIR": str(folder), "TRUEMEM_LINES": "on"}
    environ = {name.encode(): value.encode() for name, value in (variables | settings).items()}
    config = Config(environ)
    assert config.problems == []
    unused: Any = None
    return Site(config, environ, "truemem", managed, table, unused, unused)


class Driven:
    """The wing of one environment, and the invocations that it is told of."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.folder = folder
        self.living = {PID}
        table = SimpleNamespace(function=lambda: [SimpleNamespace(pid=pid) for pid in self.living])
        made = door(site(folder, table, **settings))
        assert isinstance(made, GrowthLines)
        self.wing = made
        self.number = 0
        self.request = folder / f"{REQUEST_PREFIX}{PID}"
        self.answer = folder / f"{REQUEST_PREFIX}{PID}.json"

    def invoke(self, kib: int | None = 20_000, **how: Any) -> Mapping[str, object]:
        """Close an invocation's window, and print its record: the members that it gets. `kib` is in use; None where
        the heap page does not say."""
        return self.finish(self.closed(kib, **how))

    def closed(
        self,
        kib: int | None = 20_000,
        *,
        pid: int = PID,
        held_mib: float = 50,
        peak_mib: float = 60,
        has_page: bool = True,
        dying: bool = False,
        timeout_ms: int = 60_000,
    ) -> PendingRecord:
        self.number += 1
        made = record(self.number, held_mib, peak_mib)
        self.wing.begun(made, {"deadlineMs": made.time_ms + timeout_ms})
        made.mark_reached(round(peak_mib * 1024))
        if has_page:
            made.note(IN_USE_NOTE, InUse(pid, kib))
        unused: Any = None
        assert made.window is not None
        self.wing.window_closed((made,), made.window, unused, dying)
        assert self.wing.members(made) == {}  # the journal's pages are too small for them
        return made

    def finish(self, made: PendingRecord) -> Mapping[str, object]:
        self.wing.finishing(made)
        return self.wing.members(made)

    def grow(self, count: int = MANY, each_kib: int = LEAK_KIB, **how: Any) -> Mapping[str, object]:
        """So many invocations of a function that leaks; it stops when the preload is asked, or a line says why not."""
        for number in range(count):
            members = self.invoke(20_000 + each_kib * number, **how)
            if members or self.request.exists():
                return members
        return {}

    def put(self, answer: object) -> None:
        self.answer.write_bytes(answer if isinstance(answer, bytes) else json.dumps(answer).encode())
        self.answer.chmod(0o600)

    def files(self) -> list[str]:
        return sorted(file.name for file in self.folder.iterdir() if file.name.startswith(REQUEST_PREFIX))


@pytest.fixture
def driven(tmp_path: Path) -> Driven:
    return Driven(tmp_path)


@pytest.fixture
def asked(driven: Driven) -> Driven:
    driven.grow()
    assert driven.request.exists()
    return driven


def test_it_asks_when_what_is_in_use_grows(driven: Driven) -> None:
    driven.grow(GROWING_FROM - 1)
    assert list(driven.folder.iterdir()) == []
    driven.grow()
    assert driven.request.read_text() == f"truemem-lines-1 {PROFILED_INVOCATIONS} {CPU_PERCENT} {16 * 1024}\n"
    assert driven.request.stat().st_mode & 0o777 == 0o600


def test_a_profile_may_hold_a_twentieth_of_a_small_memory(tmp_path: Path) -> None:
    small = Driven(tmp_path, AWS_LAMBDA_FUNCTION_MEMORY_SIZE="128")
    small.grow(peak_mib=55)
    assert small.request.read_text().split()[-1] == str(128 * 1024 // 20)


def test_it_asks_when_memory_grows_whatever_is_in_use(driven: Driven) -> None:
    for number in range(MANY):
        driven.invoke(None, held_mib=50 + number * LEAK_KIB / 1024)
    assert driven.request.exists()


def test_what_stays_level_is_not_asked_about(driven: Driven) -> None:
    for number in range(4 * MANY):
        driven.invoke(20_000 + 500 * (number % 7), held_mib=50 + number % 3)
    assert driven.files() == []


PART = st.tuples(
    st.integers(1, 400),
    st.sampled_from([0, 0.1, 0.5, 1, 2, 8, -1]),
    st.integers(-4000, 4000),
    st.sampled_from([0, 16, 300]),
)
"""Invocations, KiB that each one keeps, a step before them, and noise."""


@given(st.lists(PART, min_size=1, max_size=5), st.randoms(use_true_random=False))
def test_it_grows_where_the_verdict_says_so(parts: list[Any], chance: Random) -> None:
    short, whole = Drift(Growing()), Drift(LeakVerdict())
    kib = 40_000.0
    for count, each_kib, step, noise in parts:
        kib += step
        for _ in range(count):
            kib += each_kib
            for drift in (short, whole):
                drift.see(0, 0)
            seen = max(1, round(kib + chance.uniform(-noise, noise)))
            for drift in (short, whole):
                drift.add(seen, 0)
            assert (short.verdict.name == GROWING) == (whole.verdict.name == GROWING)


@pytest.mark.parametrize(("chance", "is_chosen"), [(0.0999, True), (0.1001, False)])
def test_the_share_decides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chance: float, is_chosen: bool) -> None:
    monkeypatch.setattr("posix.urandom", lambda size: int(chance * 2 ** (8 * size)).to_bytes(size))
    some = Driven(tmp_path, TRUEMEM_LINES="10%")
    some.grow(each_kib=1500)
    assert some.request.exists() == is_chosen


def test_where_no_line_could_tell_there_is_no_wing(tmp_path: Path) -> None:
    assert door(site(tmp_path, TRUEMEM_LINES="off")) is None
    assert door(site(tmp_path, TRUEMEM_LINES="0%")) is None
    assert door(site(tmp_path, managed=True)) is None
    assert door(site(tmp_path, TRUEMEM_OUTPUT="otlp")) is None  # no line could tell
    assert door(site(tmp_path, AWS_LAMBDA_FUNCTION_MEMORY_SIZE="")) is None


def test_without_a_heap_page_it_never_asks(driven: Driven) -> None:
    for number in range(MANY):
        driven.invoke(has_page=False, held_mib=50 + number)
    assert driven.files() == []


@pytest.mark.parametrize("how", [{"peak_mib": MEMORY_MIB * 0.8}, {"timeout_ms": LEFT_MS - 1}])
def test_it_never_asks_near_the_limit_or_the_timeout(driven: Driven, how: dict[str, Any]) -> None:
    driven.grow(**how)
    assert driven.files() == []


def test_it_never_asks_one_of_several_processes(driven: Driven) -> None:
    driven.living.add(OTHER)
    for number in range(2 * MANY):
        driven.invoke(20_000 + LEAK_KIB * number, pid=(PID, OTHER)[number % 3 % 2])
    assert driven.files() == []


def test_another_process_begins_anew(driven: Driven) -> None:
    driven.grow(GROWING_FROM - 1)
    driven.living = {OTHER}
    driven.grow(GROWING_FROM - 1, pid=OTHER)
    assert driven.files() == []
    driven.grow(pid=OTHER)
    driven.invoke(30_000, pid=OTHER)
    assert driven.files() == [f"{REQUEST_PREFIX}{OTHER}"]


def test_the_answer_is_printed_once_and_its_files_go(asked: Driven) -> None:
    assert asked.invoke() == {}
    asked.put(ANSWER)
    members = asked.invoke()
    profile = {name: value for name, value in ANSWER.items() if name not in ("lines", "gaveUp")}
    assert members == {"growthLines": [LINE], "growthProfile": profile}
    assert asked.wing.lost == 0
    assert asked.files() == []
    asked.grow()
    asked.put(ANSWER)
    assert asked.invoke() == {}
    assert asked.files() == [asked.answer.name]  # not looked at


def test_a_class_is_told_where_no_line_is_known(asked: Driven) -> None:
    known = {"class": "app.Node", "perInvocationKiB": 2.1, "perInvocationObjects": 1.0, "share": 0.99}
    asked.put({**ANSWER, "lines": [known, {**known, "class": 7}]})
    members: Any = asked.invoke()
    assert members["growthLines"] == [known]
    assert asked.wing.lost == 1


def test_an_answer_without_lines_is_told(asked: Driven) -> None:
    asked.put({**ANSWER, "lines": [], "gaveUp": "cpu", "libraries": ["libfoo.so"]})
    members: Any = asked.invoke()
    assert members["growthLines"] == []
    assert (members["growthProfile"]["gaveUp"], members["growthProfile"]["libraries"]) == ("cpu", ["libfoo.so"])


def why(members: Mapping[str, object]) -> str:
    """What the line says why there is nothing."""
    (profile,) = members.values()
    assert isinstance(profile, dict)
    (text,) = profile.values()
    return str(text)


@pytest.mark.parametrize(
    ("how", "said"), [({"peak_mib": MEMORY_MIB * 0.8}, "memory"), ({"timeout_ms": LEFT_MS - 1}, "the timeout is near")]
)
def test_where_it_would_not_ask_it_is_withdrawn(asked: Driven, how: dict[str, Any], said: str) -> None:
    assert why(asked.invoke(**how)) == said
    assert asked.files() == []


@pytest.mark.parametrize("has_page", [True, False])
def test_it_forgets_a_process_that_has_ended(asked: Driven, has_page: bool) -> None:
    asked.living = {OTHER}
    assert why(asked.invoke(pid=OTHER, has_page=has_page)) == "the process has ended"
    asked.grow(pid=OTHER)
    assert asked.files() == []


def test_a_second_process_withdraws_it(asked: Driven) -> None:
    asked.living.add(OTHER)
    assert why(asked.invoke(pid=OTHER)) == "several processes"
    assert asked.files() == []


def test_a_request_that_the_function_deletes_is_given_up(asked: Driven) -> None:
    asked.request.unlink()
    for _ in range(PATIENCE_INVOCATIONS):
        assert asked.invoke() == {}
    assert why(asked.invoke()) == "no answer"
    assert asked.files() == []


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk below /tmp on which nothing can be written."""
    mount = ["mount", "-t", "tmpfs", "-o", "size=16k,mode=777", "none", str(tmp_path)]
    if os.geteuid() or subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("mounting a disk is not permitted here")
    try:
        (tmp_path / "all").write_bytes(b"x" * 16 * 1024)
        yield tmp_path
    finally:
        subprocess.run(["umount", "-l", str(tmp_path)], check=True)


def test_with_a_full_disk_it_is_given_up(full_disk: Path) -> None:
    driven = Driven(full_disk)
    assert why(driven.grow()) == "no file can be made in /tmp"
    assert [file.name for file in full_disk.iterdir()] == ["all"]


def test_what_lies_in_the_requests_place_is_not_followed(driven: Driven) -> None:
    victim = driven.folder / "victim"
    victim.write_text("precious")
    for path in (
        driven.request,
        driven.folder / f"{driven.request.name}.new",
        driven.answer,
        driven.folder / f"{driven.answer.name}.new",
    ):
        path.symlink_to(victim)
    for number in range(MANY):
        driven.invoke(20_000 + LEAK_KIB * number)
    assert driven.request.is_file()
    assert not driven.request.is_symlink()
    assert not driven.answer.is_symlink()
    assert victim.read_text() == "precious"


def link(path: Path) -> None:
    target = path.with_name("target")
    target.write_text(json.dumps(ANSWER))
    target.chmod(0o600)
    path.symlink_to(target)


def hard_link(path: Path) -> None:
    link(path)
    path.unlink()
    os.link(path.with_name("target"), path)


def sparse(path: Path) -> None:
    path.touch(0o600)
    os.truncate(path, 1 << 30)


def readable_by_all(path: Path) -> None:
    path.write_text(json.dumps(ANSWER))
    path.chmod(0o644)


@pytest.mark.parametrize(
    "place",
    [link, hard_link, sparse, readable_by_all, lambda path: os.mkfifo(path, 0o600), lambda path: path.touch(0o600)],
    ids=["link", "hard link", "a sparse GB", "readable by all", "FIFO", "empty"],
)
def test_what_is_no_private_file_is_not_read(asked: Driven, place: Callable[[Path], None]) -> None:
    place(asked.answer)
    assert asked.invoke() == UNREADABLE
    assert asked.wing.lost == 1
    assert asked.files() == []


@pytest.mark.parametrize(
    "text",
    [
        b"\0" * 100,
        b"[]",
        b"[" * MOST_ANSWER_BYTES,
        b'{"lines":',
        b"1" * MOST_ANSWER_BYTES,
        b"\xff\xfe",
        b'"' + b"x" * 9000 + b'"',
    ],
    ids=["zeros", "no object", "deep", "cut off", "a long number", "no UTF-8", "a text"],
)
def test_what_is_no_json_object_is_one_loss(asked: Driven, text: bytes) -> None:
    asked.put(text)
    assert asked.invoke() == UNREADABLE
    assert asked.wing.lost == 1


LONG = "x" * (MOST_NAME_CHARS + 1)
WRONG: dict[str, tuple[Any, ...]] = {
    "file": ("", 5, None, LONG, "a\nb", "a\x1b[31m", "a\u202eb", "\ud800", ["a"]),
    "line": (-1, True, 1.5, "12", 1e300, 10**8),
    "function": (None, LONG, "\0", {}),
    "perInvocationKiB": (-1, True, "1", float("nan"), float("inf"), 1e300),
    "share": (-0.1, 1.1, float("nan"), None),
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name in WRONG for value in WRONG[name]])
def test_a_line_that_does_not_fit_is_dropped(name: str, value: object) -> None:
    members, lost = parse(json.dumps({**ANSWER, "lines": [{**LINE, name: value}, LINE]}).encode())
    assert members["growthLines"] == [LINE]
    assert lost == 1


@pytest.mark.parametrize(("column", "is_told"), [(510, True), ("510", False)])
def test_minified_code_has_a_column(column: object, is_told: bool) -> None:
    members, lost = parse(json.dumps({**ANSWER, "lines": [{**LINE, "column": column}]}).encode())
    assert members["growthLines"] == [{**LINE, "column": column} if is_told else LINE]
    assert lost == (not is_told)


def test_members_that_do_not_fit_are_dropped_alone() -> None:
    wrong = {"runtime": LONG, "looks": "6", "cpuPercent": float("inf"), "gaveUp": "a\nb", "libraries": [1, "a.so"]}
    members, lost = parse(json.dumps({**ANSWER, **wrong, "lines": "none", "later": {"version": 2}}).encode())
    profile: Any = members["growthProfile"]
    assert profile == {"invocations": 60, "memoryKiB": 410, "lookMs": 85, "restKiB": 0.4, "libraries": ["a.so"]}
    assert members["growthLines"] == []
    assert lost == 6


def test_what_is_too_much_is_cut_off_and_counted() -> None:
    deep = {**LINE, "stack": ["f"] * (MOST_FRAMES + 2)}
    members, lost = parse(json.dumps({"lines": [deep] + [LINE] * MOST_LINES}).encode())
    assert members["growthLines"] == [{**LINE, "stack": ["f"] * MOST_FRAMES}] + [LINE] * (MOST_LINES - 1)
    assert lost == 3


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from([*ANSWER, *LINE]), inner, max_size=6),
    max_leaves=20,
)


@given(st.dictionaries(st.sampled_from([*ANSWER, "libraries"]), anything))
def test_whatever_the_function_writes_the_line_fits(answer: dict[str, object]) -> None:
    members, _ = parse(json.dumps(answer).encode())
    assert all(fits(MEMBERS[name], value) for name, value in members.items())
    assert re.fullmatch(r"[ -~]*", json.dumps(members))
    assert not re.search(r"\\u00[01]|NaN|Infinity", json.dumps(members))


@given(st.binary(max_size=200))
def test_no_bytes_make_it_fail(text: bytes) -> None:
    assert "growthProfile" in parse(text)[0]


def test_after_a_reset_it_does_not_ask_again(asked: Driven) -> None:
    next_one = Driven(asked.folder)
    next_one.living = {OTHER}
    assert why(next_one.invoke(pid=OTHER)) == "the environment was reset"
    assert next_one.files() == []
    for process in (next_one, Driven(asked.folder)):  # nor after the next reset
        process.living = {OTHER}
        assert process.grow(pid=OTHER) == {}
        assert process.files() == []


def test_at_the_end_the_answer_is_looked_for_once_more(asked: Driven) -> None:
    last = asked.closed(20_000)
    asked.put(ANSWER)
    asked.wing.ending((last,))
    assert asked.finish(last)["growthLines"] == [LINE]
    assert list(asked.folder.iterdir()) == []


def test_an_environment_that_ends_while_asked_says_so(asked: Driven) -> None:
    last = asked.closed(20_000, dying=True)
    asked.wing.ending((last,))
    assert why(asked.finish(last)) == "the environment has ended"
    assert list(asked.folder.iterdir()) == []


def test_with_no_record_left_the_files_go_all_the_same(asked: Driven) -> None:
    asked.wing.ending(())
    assert list(asked.folder.iterdir()) == []


def test_after_an_invocation_that_dies_it_does_not_ask_again(asked: Driven) -> None:
    last = asked.closed(20_000, dying=True)
    last.died(DeathReport("timeout", 1024, 1.0, {}))
    asked.wing.ending((last,))
    next_one = Driven(asked.folder)
    assert next_one.grow() == {}
    assert next_one.files() == []


def test_a_killed_sidecar_loses_the_profile_and_not_the_record(asked: Driven, tmp_path: Path) -> None:
    journal = Journal(str(tmp_path / "journal"))
    state = EnvironmentState("boot")
    wings = Wings([asked.wing])
    wings.keeper = journal
    publisher = publisher_of(ENVIRON, state, wings=wings)
    many = [{**LINE, "stack": ["x" * 60] * MOST_FRAMES}] * MOST_LINES
    asked.put({**ANSWER, "lines": many})
    made = asked.closed(20_000)
    publisher.keep(made)
    assert made.slot is not None
    os.close(journal._descriptor)  # as SIGKILL does
    (recovered,) = Journal(str(tmp_path / "journal")).recover(state, Config(ENVIRON), 0)
    assert recovered[0].properties["requestId"] == made.request_id
    assert "growthProfile" not in recovered[0].properties


def test_it_has_a_line_of_its_own_beside_a_common_one(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    records = [record(number, 60) for number in range(1, 8)]
    members, _ = parse(json.dumps(ANSWER).encode())
    records[3].note(LINES_NOTE, members)
    environ = {b"TRUEMEM_LINES": b"on", b"TRUEMEM_AGGREGATE": b"60", b"TMPDIR": bytes(tmp_path)}
    before, own, after = (valid_emf(line) for line in printed(capfd, records, environ))
    assert (before["aggregate"]["invocations"], after["aggregate"]["invocations"]) == (3, 3)
    assert own["growthLines"] == [LINE]
    assert own["requestId"] == records[3].request_id


def test_a_line_of_the_wing_alone_is_not_ordinary() -> None:
    made = finished(record(1, 60), Config(ENVIRON), "e", added={"growthProfile": {"gaveUp": "memory"}})
    assert len(BatchLines(Config(ENVIRON), lambda _: "line").add(made, 0)) == 1
