"""Functions in Java: Flight Recorder's samples name the line, the histograms of settled heaps say how much."""

import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from click.testing import CliRunner
from truemem_workbench.commands.__main__ import cli
from truemem_workbench.explain import java, run
from truemem_workbench.explain.explanation import Explanation, what
from truemem_workbench.explain.flight_recording import JavaFrame, OldObject, Step, old_objects
from truemem_workbench.explain.java_keepers import kept, loader_of
from truemem_workbench.explain.run import JITTER, explain
from truemem_workbench.runs.settle import jvm
from truemem_workbench.target.resolve import resolve

from tests.explain.planted_java import built, handler, marked
from tests.heaps import jvms


def explained(leak: str, *, repaired: bool = False, options: str = "", kib: float = 8.0) -> Explanation:
    with patch.multiple(run, LOOKS=len(JITTER)):
        return explain(
            replace(resolve(handler()), environment={jvm.OPTIONS: options}),
            [{"planted": leak, **({"repaired": True} if repaired else {})}],
            invocations=151,
            plain_seconds=60,
            measured_kib=kib,
            progress=lambda *_: None,
        )


LEAKS = {
    "static_list": "ArrayList of Orders$Order com.acme.Orders.SEEN",
    "thread_local": "ArrayList of byte[] in a ThreadLocal of thread pool-*-thread-*",
    "direct": "ArrayList of DirectByteBuffer (native memory) com.acme.Planted.DIRECT",
    "library": "ConcurrentHashMap of byte[] org.tiny.Memo.ANSWERS",
    "made_elsewhere": "ArrayList of Orders$Order com.acme.Orders.SEEN",
    "map_cache": "HashMap of byte[] com.acme.Planted.PRICES",
    "listeners": "CopyOnWriteArrayList of Planted$$Lambda",
    "interned": "HashSet of String com.acme.Planted.NAMES",
    "builder": "StringBuilder of byte[] com.acme.Planted.LOG",
    "loaders": "ArrayList of Plugin com.acme.Planted.PLUGINS",
    "executors": "Thread (stacks) pool-*-thread-*",
    "inner": "ArrayList of Planted$Report$Row com.acme.Planted.ROWS",
    "timer": "TaskQueue of Planted$1 in ",
    "scheduled": "ScheduledThreadPoolExecutor",
    "sessions": "ConcurrentHashMap of byte[] com.acme.Planted.SESSIONS",
    "linked": "Planted$Link com.acme.Planted.head",
    "deque": "ArrayDeque of byte[] com.acme.Planted.DEQUE",
    "queue": "LinkedList of byte[] com.acme.Planted.QUEUE",
    "futures": "CompletableFuture of Planted$$Lambda",
    "suppressed": "RuntimeException of ",
    "hooks": "IdentityHashMap of Thread java.lang.ApplicationShutdownHooks.hooks",
    "lists_by_key": "HashMap of byte[] com.acme.Planted.BY_KEY",
    "tree": "TreeMap of String com.acme.Planted.TREE",
    "small": "ArrayList of Long com.acme.Planted.IDS",
    "deflaters": "ArrayList of Deflater (native memory) com.acme.Planted.DEFLATERS",
    "local": "Object[] of byte[] com.acme.Planted.kept",
    "replies": "ConcurrentHashMap of CompletableFuture com.acme.Planted.REPLIES",
    "pooled": "HashMap of DirectByteBuffer (native memory) in a ThreadLocal of thread main",
    "passed": "ArrayList of String com.acme.Planted.LINES",
    "rules": "Planted$RuleLoader",  # in the heap or in metaspace: by the compiler, which keeps profiles there
    "threads": "Thread (stacks) waits-*",
    "beans": "HashMap of byte[] com.acme.Planted.BEANS[].pages",
}
"""What keeps, as it begins, by the leak."""
WHOLE = ("static_list", "direct", "passed")
"""Of which all that is kept is told."""
IN_CI = (*WHOLE, "rules", "threads")
BY_DAY = [pytest.param(each, marks=() if each in IN_CI else pytest.mark.nightly) for each in LEAKS]


@pytest.mark.parametrize("leak", BY_DAY)
def test_the_line_comes_first_with_what_keeps_it(leak: str) -> None:
    kib = {"deflaters": 260.0, "small": 3.5, "executors": 1.5, "passed": 5.33, "rules": 2.5, "threads": 1.0}.get(
        leak, 8.0
    )
    explanation = explained(leak, kib=kib)
    first = explanation.holders[0]
    assert (first.file, first.line) in marked(leak), explanation.lines()
    assert what(first).startswith(LEAKS[leak])
    assert explanation.missing == ()
    if leak == "library":
        assert first.stack[-1] == ("org.tiny.Memo", 12)
    if leak in WHOLE:
        assert 0.95 < explanation.share(sum(each.kib for each in explanation.holders)) < 1.05


@pytest.mark.parametrize("leak", [pytest.param(each, marks=pytest.mark.nightly) for each in LEAKS])
def test_a_repaired_twin_is_not_accused(leak: str) -> None:
    assert explained(leak, repaired=True, kib=0.5).holders == []


@pytest.mark.nightly
@pytest.mark.parametrize("version", ["21", "25"])
def test_other_versions_of_java_name_it_too(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    jvms.install(version)
    monkeypatch.setenv("JAVA_HOME", str(Path(jvms.java(version)).parents[1]))
    explanation = explained("static_list")
    first = explanation.holders[0]
    assert (first.file, first.line) in marked("static_list"), explanation.lines()


@pytest.mark.nightly
@pytest.mark.parametrize("collector", ["Serial", "Parallel", "G1", "Z"])
def test_each_collector_lets_samples_live(collector: str) -> None:
    explanation = explained("sessions", options=f"-XX:+Use{collector}GC")
    first = explanation.holders[0]
    assert (first.file, first.line) in marked("sessions"), explanation.lines()


def test_explain_of_a_handler_in_java_says_it() -> None:
    event = '{"planted": "static_list"}'
    done = CliRunner().invoke(cli, ["explain", handler(), "--event", event, "--invocations", "130"])
    assert done.exit_code == 0, done.output
    assert "ArrayList of Orders$Order com.acme.Orders.SEEN" in done.stdout
    assert "    Orders.SEEN.add(new Orders.Order()); // static_list" in done.stdout
    assert "- Leak: " in done.stdout


@pytest.mark.parametrize("version", ["17", "25"])
def test_a_jvm_of_each_version_is_settled(version: str, tmp_path: Path) -> None:
    program = tmp_path / "Waits.java"
    main = "public static void main(String[] a) throws Exception { System.out.println(); System.in.read(); }"
    program.write_text(f"class Waits {{ {main} }}")
    with subprocess.Popen([jvms.java(version), program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        said = jvm.settled_kib(process.pid)
        process.kill()
    assert min(said["heap"], said["metaspace"], said["classes"]) > 0


@pytest.mark.nightly
def test_a_jvm_without_flight_recorder_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    image = built() / "image"
    modules = "java.base,java.logging"
    subprocess.run(["jlink", "--add-modules", modules, "--output", image], check=True)
    monkeypatch.setenv("JAVA_HOME", str(image))
    explanation = explained("static_list")
    assert explanation.holders == []
    assert "It needs the module jdk.jfr" in explanation.lines()[-1]


# --- the way from a root ----------------------------------------------------------------------------------------------


def way(*steps: str) -> list[Step]:
    """Each as class, field, and what is said of it, with blanks between."""
    parts = [(*each.split(" ", 2), "", "") for each in steps]
    return [Step(of, by, said) for of, by, said, *_ in parts]


MIRROR = "java.lang.Class {} Class Name: com.acme.App"
LIST = ("java.util.ArrayList elementData Size: 7", "[Ljava.lang.Object; []")
NODE = ("java.util.HashMap table Size: 7", "[Ljava.util.HashMap$Node; []", "java.util.HashMap$Node value")
OWN = ("java.lang.Thread threadLocals Thread Name: pool-1-thread-22", "java.lang.ThreadLocal$ThreadLocalMap table")
ENTRY = ("[Ljava.lang.ThreadLocal$ThreadLocalMap$Entry; []", "java.lang.ThreadLocal$ThreadLocalMap$Entry value")


ORDER, LINK = "com.acme.Order", "com.acme.Link"
STREAM, TABLE = "java.io.ObjectOutputStream handles", "java.io.ObjectOutputStream$HandleTable objs"


@pytest.mark.parametrize(
    ("steps", "owner", "container", "item", "depth"),
    [
        ((MIRROR.format("SEEN"), *LIST, ORDER), "App.SEEN", "ArrayList", ORDER, 1),
        ((MIRROR.format("SEEN"), *LIST, f"{ORDER} page", "[B"), "App.SEEN", "ArrayList", ORDER, 2),
        ((MIRROR.format("SEEN"), LIST[0], "[Ljava.lang.Object;"), "App.SEEN", "ArrayList", "", 0),
        ((MIRROR.format("SEEN"), *LIST, "java.util.UUID"), "App.SEEN", "ArrayList", "java.util.UUID", 1),
        ((MIRROR.format("MAP"), *NODE, "[B"), "App.MAP", "HashMap", "[B", 1),
        ((MIRROR.format("MAP"), NODE[0], NODE[1], "java.util.HashMap$Node"), "App.MAP", "HashMap", "", 0),
        ((MIRROR.format("ONLY"), "com.acme.Shop all", *LIST, "[B"), "App.ONLY.all", "ArrayList", "[B", 1),
        ((MIRROR.format("LOG"), STREAM, TABLE, "[Ljava.lang.Object;"), "App.LOG", "ObjectOutputStream", "", 0),
        ((MIRROR.format("head"), f"{LINK} next", LINK), "App.head", "", LINK, 1),
        ((MIRROR.format("head"), f"{LINK} next", f"{LINK} page", "[B"), "App.head", "", LINK, 2),
        ((MIRROR.format("all"), f"[L{ORDER}; []", ORDER), "App.all", "Order[]", ORDER, 1),
        (("com.acme.Loader classes", *LIST, MIRROR.format("SEEN"), *LIST, "[B"), "App.SEEN", "ArrayList", "[B", 1),
        ((*OWN, *ENTRY, *LIST, "[B"), "in a ThreadLocal of thread pool-*-thread-*", "ArrayList", "[B", 1),
        (("java.lang.Thread  Thread Name: pool-3-thread-1",), "pool-*-thread-*", "", "java.lang.Thread", 1),
        ((*LIST, "[B"), "in a local variable of thread main", "ArrayList", "[B", 1),
    ],
)
def test_a_way_says_what_keeps(steps: Sequence[str], owner: str, container: str, item: str, depth: int) -> None:
    owner = f"com.acme.{owner}" if owner.startswith("App") else owner
    assert kept(way(*steps), "Thread Name: main")[:4] == (owner, container, item, depth)


def test_without_a_way_nothing_is_said() -> None:
    assert kept([], "")[:4] == ("", "", "", 0)


BEAN = (MIRROR.format("BEANS"), *NODE, "com.acme.Bean pages", *NODE, "[B")


def test_what_grows_below_items_that_do_not_is_the_keeper() -> None:
    new_page = len(BEAN) - 2
    assert kept(way(*BEAN), "", lambda at: at >= new_page)[:3] == ("com.acme.App.BEANS[].pages", "HashMap", "[B")
    assert kept(way(*BEAN), "")[:3] == ("com.acme.App.BEANS", "HashMap", "com.acme.Bean")


def test_a_callback_of_an_item_is_no_part_of_the_map() -> None:
    future = ("java.util.concurrent.CompletableFuture stack", "java.util.concurrent.CompletableFuture$UniAccept")
    found = kept(way(MIRROR.format("OPEN"), *NODE, *future), "")
    assert (found.container, found.item, found.depth) == ("HashMap", "java.util.concurrent.CompletableFuture", 2)


def test_a_stack_that_makes_a_class_loader_says_so() -> None:
    base = (JavaFrame("java.lang.ClassLoader", "<init>", 9), JavaFrame("com.acme.Loader", "<init>", 3))
    assert loader_of((*base, HANDLER)) == ("com.acme.Loader", (HANDLER,))
    assert loader_of((HANDLER,)) == ("", (HANDLER,))


# --- how much ---------------------------------------------------------------------------------------------------------

HANDLER = JavaFrame("com.acme.App", "handle", 7)
AT = [20, 40, 60, 80, 100, 120, 140, 160]


def stack(line: int) -> tuple[JavaFrame, ...]:
    return JavaFrame("java.util.Arrays", "copyOf", 1), JavaFrame("com.acme.App", "kept", line), HANDLER


def sample(field: str, line: int, of: str = "[B", size: int = 2000) -> OldObject:
    return OldObject(of, size, 2**62, stack(line), tuple(way(MIRROR.format(field), *LIST, of)), "")


Looks = Sequence[tuple[int, list[OldObject]]]
"""Bytes of all byte[] at each look, and the samples."""


def found(looks: Looks) -> dict[str, Any]:
    growth = java._Growth()
    for invocation, (size, samples) in zip(AT, looks, strict=True):
        growth.add(invocation, {"heap": size / 1024}, {"[B": (size // 2016, size)}, samples)
    return growth.document()


def named(looks: Looks, tmp_path: Path, kib: float = 8.0) -> list[tuple[str, int, float]]:
    holders = java.holders(found(looks), java.Sources(tmp_path), kib)
    return [(each.owner, each.line, round(each.kib, 1)) for each in holders]


def test_a_full_cache_of_the_same_class_is_not_accused(tmp_path: Path) -> None:
    looks = [(8192 * at, [sample("CACHE", 3)] * 40 + [sample("SEEN", 4)] * at) for at in AT]
    assert named(looks, tmp_path) == [("com.acme.App.SEEN", 4, 8.0)]


def test_two_that_grow_share_what_the_histogram_says(tmp_path: Path) -> None:
    looks = [(8192 * at, [sample("A", 3)] * at + [sample("B", 4)] * (3 * at)) for at in AT]
    assert named(looks, tmp_path) == [("com.acme.App.B", 4, 6.0), ("com.acme.App.A", 3, 2.0)]


def test_without_growth_in_the_histogram_none_is_accused(tmp_path: Path) -> None:
    assert named([(10**6, [sample("SEEN", 4)] * at) for at in AT], tmp_path) == []


def test_growth_that_no_sample_shows_is_told(tmp_path: Path) -> None:
    rest = java.rest(found([(8192 * at, []) for at in AT]), 8.0)
    assert rest is not None
    assert rest.sentence == "8.0 KiB are live objects that no sample shows, most of them byte[]"


def test_the_bytes_of_strings_count_with_them(tmp_path: Path) -> None:
    growth = java._Growth()
    for at in AT:
        classes = {"java.lang.String": (40 * at, 1024 * at), "[B": (40 * at, 7168 * at)}
        growth.add(at, {}, classes, [sample("SEEN", 4, "java.lang.String", -1)] * at + [sample("FULL", 3)] * 9)
    (only,) = java.holders(growth.document(), java.Sources(tmp_path), 8.0)
    assert (only.owner, round(only.kib, 1)) == ("com.acme.App.SEEN", 8.0)


def test_threads_that_stay_hold_their_stacks(tmp_path: Path) -> None:
    growth = java._Growth()
    for at in AT:
        roots = [f"Thread Name: worker-{number}" for number in range(at)]
        queues = [OldObject("a.Queue", -1, 2**62, stack(4), tuple(way("a.Queue")), root) for root in roots]
        growth.add(at, {"stacks": 96.0 * at}, {"a.Queue": (at, 1024 * at)}, queues)
    (only,) = java.holders(growth.document(), java.Sources(tmp_path), 97.0)
    assert (only.kind, only.owner, only.line, round(only.kib)) == ("Thread (stacks)", "worker-*", 4, 97)
    assert java.apart(growth.document()) == 96.0


def test_a_new_empty_list_of_a_map_is_not_what_fills_it(tmp_path: Path) -> None:
    key = (MIRROR.format("FREE"), *NODE, "java.util.ArrayDeque elements", "[Ljava.lang.Object; []", "[B")
    made = (JavaFrame("java.util.ArrayDeque", "<init>", 1), *stack(32)[1:])
    growth = java._Growth()
    for at in AT:
        new = [OldObject("[Ljava.lang.Object;", 16, 2**62, made, tuple(way(*key[:-1])), "")] * at
        nodes = [OldObject("java.util.HashMap$Node", -1, 2**62, stack(32), tuple(way(*key[:4])), "")] * at
        classes = {"[B": (at, 8192 * at), "[Ljava.lang.Object;": (at, 80 * at), "java.util.HashMap$Node": (at, 32 * at)}
        items = [OldObject("[B", 8176, 2**62, stack(33), tuple(way(*key)), "")] * at
        growth.add(at, {}, classes, [*new, *nodes, *items])
    (only,) = java.holders(growth.document(), java.Sources(tmp_path), 8.0)
    assert only.line == 33


def test_the_caller_that_passes_the_keeper_is_named(tmp_path: Path) -> None:
    source = tmp_path / "com" / "acme" / "App.java"
    source.parent.mkdir(parents=True)
    source.write_text("\n\n\ninto.add(row);\n\n\ncollect(SEEN, row);\n")
    looks = [(8192 * at, [sample("SEEN", 4)] * at) for at in AT]
    (only,) = java.holders(found(looks), java.Sources(tmp_path), 8.0)
    assert (only.line, only.allocated) == (7, (str(source), 4))


def test_one_array_that_doubles_grows_in_few_steps(tmp_path: Path) -> None:
    sizes = [2**17, 2**18, 2**18, 2**19, 2**19, 2**19, 2**20, 2**20]
    looks = [(size, [sample("LOG", 4, size=size)]) for size in sizes]
    assert [each[:2] for each in named(looks, tmp_path)] == [("com.acme.App.LOG", 4)]
    assert named(looks, tmp_path, kib=0.1) == []


def test_a_library_is_what_lies_in_no_folder_of_the_project(tmp_path: Path) -> None:
    source = tmp_path / "src" / "com" / "acme" / "App.java"
    source.parent.mkdir(parents=True)
    source.touch()
    stack = (JavaFrame("java.util.HashMap", "put", 9), JavaFrame("org.tiny.Memo", "keep", 5), HANDLER)
    theirs = java.Sources(tmp_path)
    assert theirs.way(stack) == ((str(source), 7),)
    assert theirs.stack(stack) == ((str(source), 7), ("org.tiny.Memo", 5))
    elsewhere = java.Sources(source.parent / "none")
    assert elsewhere.way(stack) == (("com.acme.App", 7), ("org.tiny.Memo", 5))


def test_classes_of_one_name_in_a_histogram_are_one() -> None:
    text = "   1:  3  96  a.B\n   2:  2  48  a.C$$Lambda$1/0x01\n   3:  1  24  a.C$$Lambda$1/0x02\n"
    assert jvm.sizes(text) == {"a.B": (3, 96), "a.C$$Lambda$1": (3, 72)}


@pytest.mark.parametrize("data", [b"x", b"FLR\0" + bytes(80), b"FLR\0" + b"\xff" * 80])
def test_what_is_no_recording_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"recording"):
        old_objects(data)
