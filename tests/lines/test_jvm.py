"""A leak in a function on a real JVM: its classes are named, and no JVM is harmed."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from truemem.lines import PROFILED_INVOCATIONS
from truemem.verdict import GROWING_FROM
from truemem.wings import HEAP_NOTE
from truemem_workbench.local import Function

from testing.environment import Environment, Record
from tests.heaps.jvms import VERSIONS, classes, install, java

SOURCE = Path(__file__).parent / "java" / "Keeps.java"
MANAGED = ("-XX:+UseSerialGC", "-Xmx128m", "-Xshare:auto", "-XX:TieredStopAtLevel=1")
"""As AWS's own runtimes start it."""
ASKED = GROWING_FROM + 60
"""Invocations until it is asked, at most; a reading that the next invocation has raced is none."""
MOST = 5000
"""Invocations until it has answered, at most."""
ORDERS = 40
G1 = pytest.param(("-XX:-UseSerialGC", "-XX:+UseG1GC"), True, marks=pytest.mark.nightly)
CANNOT = {"runtime": "java", "looks": 0, "gaveUp": "the JVM was started so that it cannot be attached to"}


class Keeps(Environment):
    """As root, the processes stay root: HotSpot makes no file for a user without a name."""

    def __init__(
        self, version: str, *options: str, lines: str = "on,java", tools: str = "", exact: bool = True
    ) -> None:
        folder = classes(SOURCE)
        command = (java(version), *MANAGED, *options, "-cp", str(folder), "Keeps")
        function = Function(command, folder, "Keeps", None, (folder,))
        variables = {"TRUEMEM_LINES": lines} | ({"JAVA_TOOL_OPTIONS": tools} if tools else {})
        self.seen: set[int] = set()
        super().__init__(function, user="current", environment=variables, memory_mib=512, exact=exact)

    def __enter__(self) -> "Keeps":
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        for pid in self.seen:  # of a JVM that was killed nothing is removed
            for name in (f".java_pid{pid}", f".attach_pid{pid}"):
                Path("/tmp", name).unlink(missing_ok=True)

    @property
    def pid(self) -> int:
        pid = self.local.processes()["runtime"]
        self.seen.add(pid)
        return pid

    def keep(self, count: int, do: str = "keep collect") -> None:
        for _ in range(count):
            self.invoke(do)

    def until_answered(self) -> None:
        """Until the line has the profile, with invocations that follow at once."""
        for _ in range(MOST // 20):
            self.keep(20)
            if any("growthProfile" in str(line) for line in self.local.extension_stdout(self.name)):
                return
        raise AssertionError("no profile came")

    def until_listening(self) -> None:
        """Until the JVM was asked for the first histogram."""
        self.invoke("keep")
        socket = Path(f"/proc/{self.pid}/root/tmp/.java_pid{self.pid}")
        for _ in range(ASKED):
            self.invoke("keep collect")
            if socket.exists():
                return
        raise AssertionError("it was never asked")

    def profile(self) -> Record:
        (record,) = [record for record in self.records() if record.growthProfile]
        return record

    def left(self) -> list[str]:
        """Of our files."""
        folders = Path("/tmp"), self.local.environment_dir / "tmp"
        ours = f".truemem-lines-{self.pid}.", f".attach_pid{self.pid}"
        return [file.name for folder in folders for file in folder.iterdir() if file.name.startswith(ours)]


@pytest.fixture(params=VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    install(request.param)
    java(request.param)
    return str(request.param)


@pytest.mark.parametrize(("options", "exact"), [((), True), ((), False), G1], ids=["exact", "sampled", "G1"])
def test_the_class_that_grows_is_named_first(version: str, options: tuple[str, ...], exact: bool) -> None:
    """Its arrays of bytes are larger. Beside it a cache is full, and its entries change."""
    with Keeps(version, *options, exact=exact) as running:
        running.keep(ASKED + PROFILED_INVOCATIONS)
        running.until_answered()
        assert running.left() == []
        record = running.profile()
        said = [entry.text for entry in running.local.logs if entry.source == "function"]
    assert said == []  # no thread dump, and no words
    order, payload, *others = record.growthLines
    assert (order["class"], payload["class"]) == ("Keeps$Order", "byte[]")
    assert order["perInvocationObjects"] == pytest.approx(ORDERS, rel=0.1)
    assert payload["perInvocationKiB"] == pytest.approx(ORDERS, rel=0.1)
    assert not any("Cached" in each["class"] for each in others)
    assert HEAP_NOTE in record.document
    assert PROFILED_INVOCATIONS <= record.growthProfile["invocations"] <= PROFILED_INVOCATIONS + 1
    assert (record.growthProfile["runtime"], record.growthProfile["looks"]) == ("java", 2)


def test_a_leak_without_a_collection_of_its_own_is_found(version: str) -> None:
    with Keeps(version, "-Xmx26m", "-Xmn4m") as running:
        running.keep(540, "keep")
        assert running.profile().growthLines[0]["class"] == "Keeps$Order"


def test_without_the_word_java_no_jvm_is_asked(version: str) -> None:
    with Keeps(version, lines="on") as running:
        running.keep(ASKED)
        assert not Path(f"/tmp/.java_pid{running.pid}").exists()
        assert not any(record.growthProfile for record in running.records())


@pytest.mark.parametrize(
    ("option", "where"),
    [("-Xrs", "command"), ("-XX:+DisableAttachMechanism", "variable"), ("-XX:+DisableAttachMechanism", "file")],
)
def test_a_jvm_that_cannot_be_attached_to_lives_on(version: str, option: str, where: str, tmp_path: Path) -> None:
    file = tmp_path / "options"
    file.write_text(option)
    given = {"command": (option,), "variable": (), "file": (f"@{file}",)}[where]
    with Keeps(version, *given, tools=option if where == "variable" else "") as running:
        running.invoke("keep")
        pid = running.pid
        running.keep(ASKED)
        assert running.pid == pid
        assert running.left() == []
        assert running.profile().growthProfile == CANNOT
        assert "Full thread dump" not in "".join(entry.text for entry in running.local.logs)


@pytest.fixture
def asked(version: str) -> Iterator[Keeps]:
    with Keeps(version) as running:
        running.until_listening()
        yield running


def test_a_jvm_that_is_killed_meanwhile_is_given_up(asked: Keeps) -> None:
    os.kill(asked.pid, signal.SIGKILL)
    asked.attempt("keep")
    asked.keep(3)
    assert asked.left() == []
    record = asked.profile()
    assert record.growthProfile["gaveUp"]
    assert record.growthLines is None


@pytest.mark.parametrize("ends", [False, True])
def test_a_heap_that_is_full_meanwhile_shows_nothing_of_ours(version: str, ends: bool) -> None:
    with Keeps(version, "-Xmx48m", *(["-XX:+ExitOnOutOfMemoryError"] if ends else [])) as running:
        running.until_listening()
        for _ in range(3 if ends else PROFILED_INVOCATIONS):
            running.attempt("keep fill")
        running.until_answered()
        assert running.left() == []
        record = running.profile()
        said = [entry.text for entry in running.local.logs if entry.source == "function"]
    assert set(said) <= {"Terminating due to java.lang.OutOfMemoryError: Java heap space"}
    assert bool(record.growthProfile.get("gaveUp")) == bool(said) == ends
    assert ends or record.growthLines[0]["class"] == "Keeps$Order"


def test_a_freeze_in_the_middle_changes_nothing(asked: Keeps) -> None:
    for _ in range(4):
        pid = asked.pid
        os.kill(pid, signal.SIGSTOP)
        time.sleep(0.3)
        os.kill(pid, signal.SIGCONT)
        asked.invoke("keep")
    asked.until_answered()
    assert asked.left() == []
    assert asked.profile().growthLines[0]["class"] == "Keeps$Order"


def test_a_killed_sidecar_leaves_the_jvm_alone(asked: Keeps) -> None:
    os.kill(asked.local.processes()[f"extension:{asked.name}"], signal.SIGKILL)
    asked.attempt("keep")
    asked.keep(3)


def test_an_environment_that_ends_meanwhile_says_so(asked: Keeps) -> None:
    assert asked.profile().growthProfile == {"gaveUp": "the environment has ended"}
