"""Class histograms of a JVM: what is read of them, which classes have grown, and a JVM that does not answer."""

import os
import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from truemem.line_schema import MEMBERS
from truemem.lines import RISES
from truemem.lines.histogram import MOST_CLASSES, MOST_TEXT_BYTES, ClassHistogram, GaveUp, growth, parse_histogram
from truemem.lines.java import WAIT, WAIT_MS, Histograms
from truemem.verdict import GROWING_FROM
from truemem.wings import InUse

from tests.lines.test_wing import MEMORY_MIB, PID, Driven
from tests.records import fits

HEAD = """
 num     #instances         #bytes  class name (module)
-------------------------------------------------------
"""
INVOCATIONS = 60


def text(*classes: tuple[str, int, int]) -> bytes:
    """As HotSpot prints classes: name, objects, bytes."""
    lines = [f"{at:4d}: {objects:13d} {size:14d}  {name}\n" for at, (name, objects, size) in enumerate(classes, 1)]
    total = f"Total {sum(each[1] for each in classes):13d} {sum(each[2] for each in classes):14d}\n"
    return (HEAD + "".join(lines) + total).encode()


def histogram(*classes: tuple[str, int, int]) -> ClassHistogram:
    return parse_histogram(text(*classes))


@pytest.mark.parametrize(
    ("printed", "shown", "is_own"),
    [
        ("com.acme.Order", "com.acme.Order", True),
        ("com.acme.Order$Line (com.acme@1.0)", "com.acme.Order$Line", True),
        ("java.util.HashMap$Node (java.base@17.0.15)", "java.util.HashMap$Node", False),
        ("com.sun.crypto.provider.AESCrypt (java.base@21.0.4)", "com.sun.crypto.provider.AESCrypt", False),
        ("[B (java.base@17.0.15)", "byte[]", False),
        ("[[I (java.base@17.0.15)", "int[][]", False),
        ("[I", "int[]", False),
        ("[Ljava.lang.Object; (java.base@25)", "java.lang.Object[]", False),
        ("[[Lcom.acme.Order;", "com.acme.Order[][]", True),
        ("com.acme.App$$Lambda$14/0x0000000800c03000", "com.acme.App$$Lambda$14", True),
        ("com.acme.App$$Lambda/0x00007f1c (java.base@21)", "com.acme.App$$Lambda", False),
        ("B", "B", True),
    ],
)
def test_a_class_has_the_name_of_the_source(printed: str, shown: str, is_own: bool) -> None:
    (found,) = histogram((printed, 3, 96)).classes.items()
    assert found == (shown, (3, 96, is_own))


def test_classes_of_one_name_are_one() -> None:
    found = histogram(("a.B", 3, 96), ("a.C", 1, 40), ("a.B", 1, 32)).classes
    assert found == {"a.B": (4, 128, True), "a.C": (1, 40, True)}


def test_of_twenty_thousand_classes_the_largest_are_kept() -> None:
    many = [(f"com.acme.Class{number}", 1, 16 * (20_000 - number)) for number in range(20_000)]
    found = parse_histogram(text(*many)[:MOST_TEXT_BYTES])
    assert list(found.classes) == [name for name, *_ in many[:MOST_CLASSES]]
    assert found.floor == many[MOST_CLASSES][2]


def test_what_is_free_is_no_class() -> None:
    assert not histogram(("[Ljdk.internal.vm.FillerElement; (java.base@25)", 3, 960)).classes


@pytest.mark.parametrize("wrong", [b"", b"\n", b"\0" * 100, text(("a.B", 1, 16))[:-1], text(("a.B", 1, 16))[:130]])
def test_a_histogram_that_is_cut_off_is_none(wrong: bytes) -> None:
    with pytest.raises(GaveUp):
        parse_histogram(wrong)


names = st.text(st.characters(codec="utf-8", exclude_characters="\n"), max_size=20)
listed = st.lists(st.tuples(names, st.integers(0, 10**9), st.integers(0, 10**12)), max_size=30)


@given(listed, listed)
def test_whatever_the_classes_are_the_line_fits(before: Any, after: Any) -> None:
    first, second = histogram(*before), histogram(*after)
    entries, rest_kib = growth(first, second, INVOCATIONS)
    assert fits(MEMBERS["growthLines"], entries)
    assert rest_kib >= 0
    assert sum(float(str(each["share"])) for each in entries) <= 1.06
    assert growth(second, second, INVOCATIONS)[0] == []


@given(st.binary(max_size=300) | st.binary(max_size=60).map(lambda wrong: HEAD.encode() + wrong + b"\nTotal 1 1\n"))
def test_no_bytes_make_it_fail(wrong: bytes) -> None:
    with suppress(GaveUp):
        assert all(name.isprintable() for name in parse_histogram(wrong).classes)


def test_the_applications_class_comes_first() -> None:
    before = histogram(("[B (java.base@17)", 100, 100_000), ("a.Order", 0, 0), ("a.Cached", 500, 12_000))
    after = histogram(("[B (java.base@17)", 160, 161_440), ("a.Order", 60, 1440), ("a.Cached", 500, 12_000))
    entries, rest_kib = growth(before, after, INVOCATIONS)
    order, payload = entries
    assert order == {"class": "a.Order", "perInvocationKiB": 0.02, "perInvocationObjects": 1.0, "share": 0.02}
    assert payload == {"class": "byte[]", "perInvocationKiB": 1.0, "perInvocationObjects": 1.0, "share": 0.98}
    assert rest_kib == 0


def test_what_is_made_once_or_only_larger_is_the_rest() -> None:
    before = histogram(("[Ljava.lang.Object; (java.base@17)", 9, 1024), ("a.Config", 0, 0))
    after = histogram(("[Ljava.lang.Object; (java.base@17)", 9, 1024 + 6144), ("a.Config", 5, 6144))
    assert growth(before, after, INVOCATIONS) == ([], 0.2)


def test_a_class_that_was_too_small_has_grown_by_the_difference() -> None:
    after = histogram(("a.Order", 1000, 16_000))
    assert growth(ClassHistogram({}, 4000), after, INVOCATIONS)[0][0]["perInvocationObjects"] == 12.5
    assert growth(ClassHistogram({}, 16_000), after, INVOCATIONS)[0] == []


# A JVM that is asked

STATUS = f"Name:\tjava\nUid:\t{os.geteuid()}\t{os.geteuid()}\t7\t7\nNSpid:\t{PID}\nSigCgt:\t0000000000000004\n"


class Listener:
    """Plays the listener of a JVM."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.texts = {f"{PID}/status": STATUS, f"{PID}/cmdline": "java\0App\0", f"{PID}/environ": "HOME=/\0"}
        self.program = "/var/lang/bin/java"
        proc: Any = SimpleNamespace(
            text=lambda name, limit=0: self.texts[name].encode(), executable=lambda pid: self.program
        )
        self.signals: list[tuple[int, int]] = []
        monkeypatch.setattr("posix.kill", lambda pid, number: self.signals.append((pid, number)))
        self.now_ms, self.step_ms = 0, WAIT_MS // WAIT
        self.histograms = Histograms(proc, PID, str(folder), INVOCATIONS)
        self.file = folder / f".truemem-lines-{PID}.histogram"
        self.address, self.trigger = Path(f"/tmp/.java_pid{PID}"), Path(f"/tmp/.attach_pid{PID}")
        self.socket = socket.socket(socket.AF_UNIX)
        self.counters = Path("/tmp/hsperfdata_truemem-test") / str(PID)
        self.counters.parent.mkdir(exist_ok=True)
        self.counters.touch(0o600)
        self.counters.write_text("java.rt.vmArgs")

    def listen(self) -> None:
        self.socket.bind(str(self.address))
        self.socket.listen()

    def answer(self, histogram: bytes, reply: bytes = b"0\nHeap inspection file created\n") -> bytes:
        """What was asked."""
        asking, _ = self.socket.accept()
        with asking:
            asked = asking.recv(1000)
            self.file.write_bytes(histogram)
            asking.sendall(reply)
        return asked

    def steps(self, count: int) -> None:
        for _ in range(count):
            self.now_ms += self.step_ms
            assert self.histograms.step(self.now_ms) is None

    def why(self) -> Any:
        self.now_ms += self.step_ms
        members: Any = self.histograms.step(self.now_ms)
        return members["growthProfile"]["gaveUp"]


@pytest.fixture
def jvm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Listener]:
    made = Listener(tmp_path, monkeypatch)
    yield made
    made.histograms.close()
    made.socket.close()
    for path in (made.address, made.trigger, made.counters):
        path.unlink(missing_ok=True)
    made.counters.parent.rmdir()


def test_it_is_asked_twice_and_signalled_once(jvm: Listener) -> None:
    jvm.steps(1)
    assert jvm.signals == [(PID, 3)]
    assert jvm.trigger.exists()
    jvm.listen()
    jvm.steps(1)
    assert not jvm.trigger.exists()
    asked = jvm.answer(text(("a.Order", 100, 1600)))
    assert asked == b"1\0inspectheap\0-live\0" + bytes(jvm.file) + b"\0\0"
    jvm.steps(INVOCATIONS)
    assert not jvm.file.exists() or jvm.file.read_bytes() == b"\n"
    jvm.steps(1)
    jvm.answer(text(("a.Order", 100 + 2 * INVOCATIONS, 1600 + 32 * INVOCATIONS)))
    members: Any = jvm.histograms.step(0)
    (order,) = members["growthLines"]
    assert (order["class"], order["perInvocationObjects"]) == ("a.Order", pytest.approx(2, rel=0.05))
    assert members["growthProfile"]["looks"] == 2
    assert jvm.signals == [(PID, 3)]
    assert not jvm.file.exists()


def test_one_that_listens_already_is_not_signalled(jvm: Listener) -> None:
    jvm.listen()
    jvm.steps(1)
    jvm.answer(text(("a.Order", 100, 1600)))
    assert jvm.signals == []


@pytest.mark.parametrize(
    ("step_ms", "steps"),
    [(WAIT_MS // WAIT, WAIT), (WAIT_MS // WAIT // 2, 2 * WAIT), (10 * WAIT_MS, WAIT)],
    ids=["as usual", "time where invocations are short", "invocations where they are long"],
)
def test_one_that_does_not_listen_has_time_and_invocations(jvm: Listener, step_ms: int, steps: int) -> None:
    jvm.step_ms = step_ms
    jvm.steps(steps)
    assert jvm.why() == "the JVM does not listen"
    assert jvm.trigger.exists()  # for the signal that it may not have looked at yet


def test_one_that_does_not_answer_is_given_up(jvm: Listener) -> None:
    jvm.listen()
    jvm.steps(WAIT)
    assert jvm.why() == "no histogram came"
    assert not jvm.file.exists()


@pytest.mark.parametrize(
    ("reply", "why"),
    [(b"1\nno\n", "the JVM refuses"), (b"", "the JVM refuses"), (b"0\n", "the histogram cannot be read")],
)
def test_one_that_answers_nothing_is_given_up(jvm: Listener, reply: bytes, why: str) -> None:
    jvm.listen()
    jvm.steps(1)
    jvm.answer(b"\n", reply)
    assert jvm.why() == why


def test_a_socket_without_a_listener_is_given_up(jvm: Listener) -> None:
    jvm.listen()
    jvm.socket.close()
    assert jvm.why() == "the JVM cannot be asked"
    assert jvm.signals == []


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("status", "0004", "0003"),
        ("status", "SigCgt", "SigIgn"),
        ("status", f"\t{os.geteuid()}\t7", "\t12345\t7"),
        ("cmdline", "App", "-Xrs"),
        ("cmdline", "App", "-XX:+ReduceSignalUsage"),
        ("environ", "HOME=/", "JAVA_TOOL_OPTIONS=-XX:+DisableAttachMechanism"),
    ],
)
def test_what_may_be_harmed_is_never_signalled(jvm: Listener, name: str, old: str, new: str) -> None:
    jvm.texts[f"{PID}/{name}"] = jvm.texts[f"{PID}/{name}"].replace(old, new)
    assert jvm.why()
    assert jvm.signals == []
    assert not jvm.trigger.exists()


def test_the_counters_have_what_an_options_file_says(jvm: Listener) -> None:
    jvm.counters.write_text("java.rt.vmArgs -XX:+DisableAttachMechanism")
    assert jvm.why() == "the JVM was started so that it cannot be attached to"
    jvm.counters.unlink()
    assert jvm.signals == []


def test_one_without_counters_is_no_hotspot(jvm: Listener) -> None:
    jvm.counters.unlink()
    assert jvm.why() == "not a JVM that can be asked"
    assert jvm.signals == []


def test_another_program_is_never_signalled(jvm: Listener) -> None:
    jvm.program = "/var/task/native-image"
    assert jvm.why() == "not a JVM that can be asked"
    assert jvm.signals == []


# When it is asked


class Steps:
    """Stands for the histograms of a JVM."""

    def __init__(self, *about: Any) -> None:
        self.pid = about[1]

    def step(self, now_ms: int) -> dict[str, object]:
        return {"growthProfile": {"runtime": "java", "looks": self.pid}}

    def close(self) -> None:
        pass


@pytest.fixture(autouse=True)
def jvms(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    if "jvm" not in request.fixturenames:
        monkeypatch.setattr("truemem.lines.java.Histograms", Steps)
        monkeypatch.setattr("tests.lines.test_wing.InUse", lambda pid, kib: InUse(pid, kib, is_jvm=True))


def asked(driven: Driven, levels_kib: list[int], peak_mib: float = 60) -> bool:
    """Is it asked when its major collections leave so much, each for ten invocations?"""
    made = [driven.invoke(level, peak_mib=peak_mib) for level in levels_kib for _ in range(10)]
    assert driven.files() == []
    profiles = [members for members in made if members]
    assert profiles in ([], [{"growthProfile": {"runtime": "java", "looks": PID}}])
    return bool(profiles)


WARM = [20_000] * (GROWING_FROM // 10)
LEVELS = WARM + [20_000 + 3000 * rise for rise in range(RISES + 1)]


def test_a_jvm_is_asked_when_each_collection_leaves_more(tmp_path: Path) -> None:
    assert asked(Driven(tmp_path, TRUEMEM_LINES="on,java"), LEVELS)


@pytest.mark.parametrize(
    "levels",
    [
        LEVELS[: len(WARM) + RISES - 1],
        [5000 * rise for rise in range(1, 5)] + [20_000] * 20,
        WARM + [20_000 + 100 * (rise % 2) for rise in range(20)],
        WARM + [23_000, 20_000] * 10,
    ],
    ids=["too few", "as it warms up", "level", "up and down"],
)
def test_one_that_does_not_grow_is_not_asked(tmp_path: Path, levels: list[int]) -> None:
    assert not asked(Driven(tmp_path, TRUEMEM_LINES="on,java"), levels)


def test_one_is_not_asked_without_the_word_or_near_the_limit(tmp_path: Path) -> None:
    assert not asked(Driven(tmp_path), LEVELS)
    assert not asked(Driven(tmp_path, TRUEMEM_LINES="on,java"), LEVELS, peak_mib=MEMORY_MIB * 0.7)


def test_near_the_limit_or_at_the_end_it_takes_no_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[int] = []
    monkeypatch.setattr(Steps, "step", lambda self, now_ms: steps.append(1))
    ending, full = (Driven(tmp_path / name, TRUEMEM_LINES="on,java") for name in ("ending", "full"))
    for driven in (ending, full):
        driven.folder.mkdir()
        assert not asked(driven, LEVELS)
    taken = len(steps)
    assert taken > 0
    last = ending.closed(20_000)
    ending.wing.ending((last,))
    assert ending.finish(last) == {"growthProfile": {"gaveUp": "the environment has ended"}}
    assert full.invoke(peak_mib=MEMORY_MIB * 0.7) == {"growthProfile": {"gaveUp": "memory"}}
    assert len(steps) == taken + 1
