"""Explains a function in Java: what Flight Recorder's old object samples say of what the class histograms see grow.

The histogram of a settled heap says how much each class grows by; samples of the objects that live say where they were
allocated, and by which way from a root they are kept. So amounts are shares of the histogram's, and a line is named
only if objects that it allocated are there. A recording begins before the first invocation.
"""

from __future__ import annotations

import itertools
import math
import os
import re
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
from truemem.verdict import GATE_KIB

from ..judge.curves import MALLOC
from ..runs.settle import jvm
from ..runs.settle.outside import seen_from_outside
from ..runs.settle.settler import jvms
from .attribution import LEAST_LOOKS, SKIPPED_SHARE, Frame, Holder, most_first, rising
from .explanation import REST, LikelyCause, source
from .flight_recording import JavaFrame, OldObject, old_objects
from .java_keepers import MIRROR, OF_THE_JDK, TEXT, THREAD_CLASS, Keepers, at_look, short, shown, whole
from .looks import Looks

if TYPE_CHECKING:
    from ..runs.here import Run

TLAB = 1024
"""Bytes of a thread's buffer for objects: a sample is taken when one is full, and of each object that does not fit into
it. It is the least with which JDK 17 to 25 start. Measured with Java 17: 1.9 s more for each GB that is allocated.
Without such buffers (-XX:-UseTLAB) compiled code allocates unseen."""
MOST_SAMPLES = 100_000
"""Places for samples. Of Flight Recorder's own 256 most have objects that nothing keeps, until a collection."""
MOST_FRAMES = 256
FLAGS = (
    f"-XX:TLABSize={TLAB} -XX:MinTLABSize={TLAB} -XX:-ResizeTLAB -XX:TLABWasteIncrement=0 {jvm.TRACKING}"
    f" -XX:FlightRecorderOptions=old-object-queue-size={MOST_SAMPLES},stackdepth={MOST_FRAMES}"
)
NAME = "truemem"
"""Name of the recording."""
CONFIGURATION = """<?xml version="1.0" encoding="UTF-8"?>
<configuration version="2.0"><event name="jdk.OldObjectSample"><setting name="enabled">true</setting>
<setting name="stackTrace">true</setting><setting name="cutoff">infinity</setting></event></configuration>
"""
NO_JVM = "No JVM was found that can be attached to: HotSpot, without -Xrs and -XX:+DisableAttachMechanism."
RECORDER_MODULE = "jdk.jfr"
NO_RECORDER = (
    "Flight Recorder does not start in this JVM: {why}. It needs the module jdk.jfr: add it to the image (jlink"
    " --add-modules jdk.jfr), or run here with a whole JDK (Debian: apt install openjdk-17-jdk-headless)."
)
HEAP, METADATA, DIRECT, OWN = "heap", "metaspace", "direct", "own"
"""What `jvm.settled_kib` says, KiB: what lives in the heap, classes, direct buffers, and the JVM's own."""
STACKS = jvm.STACKS
BESIDE = {MIRROR: METADATA, jvm.BUFFER: DIRECT, THREAD_CLASS: STACKS}
"""Classes of the objects that stand for memory beside the heap."""
ZLIB_KIB = {"java.util.zip.Deflater": 268.0, "java.util.zip.Inflater": 44.0}
"""Native memory of one that was not ended, at most (zconf.h: `(1 << (windowBits+2)) + (1 << (memLevel+9))`)."""
CLIENTS = ("com.amazonaws.services.lambda.runtime.", "lambdainternal.", "truemem.")
"""Packages of AWS's runtime client, of the one before it, and of our own."""
RECORDER = ("jdk.jfr.", "sun.tools.", "jdk.internal.vm.VMSupport")
"""Packages of what allocates while we ask."""
STEPS, STEP_PART = 3, 0.1
"""Steps of one array's growth, and the part of it that each has."""
MOST_NAMED = 3
WHERE = {MIRROR: "metaspace", THREAD_CLASS: "stacks"}
BYTES = "[B"
OF_A_CLASS = re.compile(r"(?:[a-z_]\w*\.)*[A-Z][\w$]*\.(\S+)$")
"""A static field, and the fields that follow: they come after the first name that begins as a class does."""


class JvmLooks:
    """Looks at each JVM of one run, between two invocations."""

    def __init__(self, planned: Sequence[int], seconds: float) -> None:
        """As `Looks`."""
        self._looks = Looks(planned, seconds)
        self._found: dict[int, _Growth] = {}
        """By pid."""
        self._recorded: set[int] = set()
        self._missing: list[str] = []

    def between(self, folder: Path, run: Run, done: int) -> None:
        """Begin to record in a JVM that is new, and look at all of them when that is due, after so many invocations.
        Raises OSError, ValueError, LookupError for what cannot be read."""
        is_due = done > 0 and not self._looks.is_over and self._looks.due()
        if not done:
            run.local.settle()  # its init phase is over
        pid = run.local.processes().get("runtime")
        known = [*jvms(pid)] if pid is not None else []
        new = [each for each in known if each not in self._found]
        if new or (known and is_due):
            with run.local.thawed():
                for each in new:
                    self._begin(each, folder)
                for each in known if is_due else ():
                    self._look(each, folder)
        if is_due and not known:
            said = next((each.text for each in run.local.logs if RECORDER_MODULE in each.text), "")
            self._missing.append(NO_RECORDER.format(why=said) if said else NO_JVM)

    def _begin(self, pid: int, folder: Path) -> None:
        self._found[pid] = _Growth()
        settings = folder / "settings.jfc"
        settings.write_text(CONFIGURATION, encoding="utf-8")
        try:
            said = jvm.run(pid, f"JFR.start name={NAME} settings={settings}")
        except ValueError as error:
            said = str(error)
        if "Started recording" in said:
            self._recorded.add(pid)
        else:
            self._missing.append(NO_RECORDER.format(why=" ".join(said.split()).rstrip(".")))

    def _look(self, pid: int, folder: Path) -> None:
        growth, path = self._found[pid], folder / f"{pid}.jfr"
        histogram = jvm.collected(pid)
        kept = jvm.settled_kib(pid, histogram)
        samples: list[OldObject] = []
        if pid in self._recorded:
            jvm.run(pid, f"JFR.dump name={NAME} filename={path} path-to-gc-roots=true")
            seen_by_us = Path(f"/proc/{pid}/root{path}")
            samples = old_objects(seen_by_us.read_bytes())
            seen_by_us.unlink()
        with suppress(psutil.Error):
            of_malloc = seen_from_outside(psutil.Process(pid)).get(MALLOC, 0.0)
            kept[MALLOC] = of_malloc - kept.get(OWN, 0.0) - kept.get(DIRECT, 0.0)
        growth.add(self._looks.count, kept, jvm.sizes(histogram), samples)

    def read(self, _: Path) -> list[dict[str, Any]]:
        """A document for each JVM that was looked at; what is missing alone where there is none."""
        found = [{**each.document(), "missing": self._missing} for each in self._found.values() if each.invocations]
        return found or ([{"invocations": [], "missing": self._missing}] if self._missing else [])


class _Growth:
    """What grows in one JVM."""

    def __init__(self) -> None:
        self.invocations: list[int] = []
        self._kept: dict[str, list[float]] = defaultdict(list)
        self._counts: dict[str, list[float]] = defaultdict(list)
        self._classes: dict[str, list[float]] = defaultdict(list)
        self._keepers = Keepers()
        self._from_ns = math.inf
        """What was allocated before the first look names no line."""

    def add(
        self,
        invocation: int,
        kept_kib: Mapping[str, float],
        classes: Mapping[str, tuple[int, int]],
        samples: Iterable[OldObject],
    ) -> None:
        """A look. `classes`: objects and bytes of each."""
        looks = len(self.invocations)
        self.invocations.append(invocation)
        for name, value in kept_kib.items():
            self._kept[name].append(value)
        for name, (count, size) in classes.items():
            at_look(self._counts[name], looks, float(count))
            at_look(self._classes[name], looks, float(size))
        weighed = []
        for each in samples:
            if not each.frames or any(frame.of.startswith(RECORDER) for frame in each.frames):
                continue
            count, size = classes.get(each.of, (0, 0))
            of_one = _array_bytes(each.of, each.elements) if each.elements >= 0 else size / count if count else 0.0
            weighed.append((each, max(float(TLAB), of_one)))
        self._keepers.add(looks, weighed, self._from_ns)
        if not looks:
            self._from_ns = time.time_ns()

    def document(self) -> dict[str, Any]:
        at, looks = self.invocations, len(self.invocations)
        kept = {name: whole(values, looks) for name, values in self._kept.items()}
        return {
            "invocations": at,
            "kept": kept,
            "counts": {name: whole(values, looks) for name, values in self._counts.items()},
            "classes": {name: whole(values, looks) for name, values in self._classes.items()},
            "keepers": self._keepers.document(at, rising(at, kept.get(STACKS, ())) > 0),
        }


def _array_bytes(of: str, elements: int) -> float:
    widths = {"Z": 1, "B": 1, "C": 2, "S": 2, "I": 4, "F": 4, "J": 8, "D": 8}
    return 16.0 + elements * widths.get(of[1:], 4)


SOURCES = (".java", ".kt", ".scala", ".groovy")
PROJECT = (".git", "pom.xml", "build.gradle", "build.gradle.kts", "build.sbt", "build.xml", ".aws-sam")
"""A folder with one of these is a project's."""
PASSED_OVER = ("node_modules",)


class Sources:
    """Which classes are the user's, and in which files: those whose source or class file lies in the project's folder.
    A library is in a jar."""

    def __init__(self, root: Path) -> None:
        above = next((each for each in (root, *root.parents) if any((each / name).exists() for name in PROJECT)), root)
        self._files: dict[str, list[Path]] = defaultdict(list)
        """By name without ending."""
        for folder, folders, names in os.walk(above):
            folders[:] = [each for each in folders if each not in PASSED_OVER and not each.startswith(".")]
            for name in names:
                path = Path(folder, name)
                if path.suffix in (*SOURCES, ".class"):
                    self._files[path.stem].append(path)

    def _found(self, of: str) -> Iterator[Path]:
        outer = of.partition("$")[0].replace(".", "/")
        for name in dict.fromkeys((outer, outer.removesuffix("Kt"))):
            for path in self._files.get(name.rpartition("/")[2], ()):
                if f"/{path.with_suffix('')}".endswith(f"/{name}"):
                    yield path

    def is_theirs(self, frame: JavaFrame) -> bool:
        return any(True for _ in self._found(frame.of))

    def place(self, frame: JavaFrame) -> Frame:
        """File and line. The class stands for a file that is not here, with its method where it has no lines."""
        source = next((each for each in self._found(frame.of) if each.suffix in SOURCES), None)
        outer = frame.of.partition("$")[0]
        return (str(source or outer), frame.line) if frame.line else (f"{outer}.{frame.method}", 0)

    def way(self, stack: Sequence[JavaFrame]) -> tuple[Frame, ...]:
        """The user's frames, outermost first. Where none is known to be theirs, all but the JDK's and the client's."""
        own = _without_the_jdk(stack)
        theirs = [each for each in own if self.is_theirs(each)]
        return tuple(map(self.place, theirs or own))

    def stack(self, stack: Sequence[JavaFrame]) -> tuple[Frame, ...]:
        """The same, with the innermost frame of a library that they called."""
        own, way = _without_the_jdk(stack), self.way(stack)
        return (*way, *[place for place in (self.place(own[-1]),) if place != way[-1]]) if own else ()


def _without_the_jdk(stack: Sequence[JavaFrame]) -> list[JavaFrame]:
    """Outermost first, without generated classes, and what AWS's client has of its own below the handler."""
    return [each for each in reversed(stack) if not each.of.startswith((*OF_THE_JDK, *CLIENTS)) and "$$" not in each.of]


def holders(found: Mapping[str, Any], sources: Sources, measured_kib: float) -> list[Holder]:
    """The lines that allocated what is kept, that with most of it first, and what keeps it.

    What keeps it, but by a line that was not seen, is reported if that is as much as is worth a sentence.
    """
    at, made = found["invocations"], []
    begin = _first(at)
    least = REST * measured_kib * 1024 if measured_kib >= GATE_KIB else math.inf
    growing = [
        (each, {name: max(0.0, sizes[-1] - sizes[begin]) for name, sizes in each["bytes"].items()})
        for each in found["keepers"]
    ]
    sampled: defaultdict[str, float] = defaultdict(float)
    for _, grown in growing:
        for name, size in grown.items():
            sampled[name] += size
    growing = [
        (keeper, grown)
        for keeper, grown in growing
        if _rate(at, [sum(column) for column in zip(*keeper["bytes"].values(), strict=True)], least, STEPS) > 0
    ]
    rates, beside = _rates(found, least), _beside(found)
    for name in {*rates, *beside}:
        if not any(grown.get(name) for _, grown in growing):
            sampled[name] = 0.0
            for keeper, grown in growing:
                grown[name] = _unseen(keeper, grown, name)
                sampled[name] += grown[name]
    for keeper, grown in growing:
        shares = {name: size / sampled[name] for name, size in grown.items() if sampled[name]}
        heap = sum(share * rates.get(name, 0.0) for name, share in shares.items())
        native = {name: share * beside.get(name, 0.0) for name, share in shares.items()}
        size = heap + sum(native.values())
        if size > 0:
            most = max(native, key=native.__getitem__)
            where = WHERE.get(most, "native memory") if native[most] > heap else ""
            made.append(_holder(keeper, sources, size / 1024, where))
    return [each for each in most_first(made, measured_kib) if each.line or each.kib > REST * measured_kib > 0]


def _unseen(keeper: Mapping[str, Any], grown: Mapping[str, float], name: str) -> float:
    """How much of a class this one may have, as a weight, where no sample of it has come to anything that grows. A leak
    that takes the same steps each time fills the buffers in step with them: the same few of its classes are sampled."""
    if name == THREAD_CLASS:
        return float(keeper["threads"][-1])
    if name == keeper["item"] or (name == MIRROR and keeper["isLoader"]):
        return 1.0
    seen = keeper["bytes"].get(name, [0.0])[-1]  # what hangs there already tells where more of it does
    return float(seen or (grown.get(TEXT, 0.0) if name == BYTES else 0.0))


def _first(at: Sequence[int]) -> int:
    """The first look that counts."""
    return min(int(len(at) * SKIPPED_SHARE), max(0, len(at) - LEAST_LOOKS))


def _rates(found: Mapping[str, Any], least: float) -> dict[str, float]:
    """Bytes per invocation by which each class grows, by the histograms."""
    return {
        name: rate
        for name, sizes in found["classes"].items()
        if (rate := _rate(found["invocations"], sizes, least)) > 0
    }


def _rate(at: Sequence[int], sizes: Sequence[float], least: float, steps: int = 1) -> float:
    """Growth per invocation, if it is steady, or at least so much in so many steps: a StringBuilder takes an array of
    twice the size now and then."""
    if (rate := rising(at, sizes)) > 0:
        return rate
    begin = _first(at)
    seen = sizes if steps > 1 else sizes[begin:]
    grown = seen[-1] - seen[0]
    moved = [after - before for before, after in itertools.pairwise(seen)]
    goes_on = sizes[-1] - sizes[len(at) // 2] > STEP_PART * grown > 0
    if not goes_on or sum(each > STEP_PART * grown for each in moved) < steps or min(moved) < -grown / 100:
        return 0.0
    rate = (sizes[-1] - sizes[begin]) / (at[-1] - at[begin])
    return rate if rate >= least else 0.0


def apart(found: Mapping[str, Any]) -> float:
    """KiB per invocation of threads' stacks: what a settled JVM keeps leaves them out."""
    return rising(found["invocations"], found["kept"].get(STACKS, ()))


def _beside(found: Mapping[str, Any]) -> dict[str, float]:
    """Bytes per invocation beside the heap, by the class of the objects that stand for it."""
    at, kept = found["invocations"], found["kept"]
    of = {name: rising(at, kept[part]) * 1024 for name, part in BESIDE.items() if part in kept}
    left = rising(at, kept.get(MALLOC, ())) * 1024
    for name, kib in ZLIB_KIB.items():
        count = rising(at, found["counts"].get(name, ()))
        of[name] = min(left, count * kib * 1024)
        left -= of[name]
    return of


def rest(found: Mapping[str, Any], rest_kib: float) -> LikelyCause | None:
    """What of the growth that no line explains the readings tell, where that is half of it."""
    at = found["invocations"]
    sampled = {
        name for each in found["keepers"] for name, sizes in each["bytes"].items() if sizes[-1] > sizes[_first(at)]
    }
    unseen = {name: rate for name, rate in _rates(found, math.inf).items() if name not in sampled}
    kib = sum(unseen.values()) / 1024
    if kib >= rest_kib / 2:
        most = sorted(unseen, key=lambda name: -unseen[name])[:MOST_NAMED]
        return LikelyCause(
            "", f"{kib:.1f} KiB are live objects that no sample shows, most of them {', '.join(map(shown, most))}"
        )
    if sum(rising(at, found["kept"].get(part, ())) for part in (MALLOC, DIRECT)) >= rest_kib / 2:
        return LikelyCause(
            "buffers-outside-of-the-heap", "Native memory grows as much, and no Java object that was seen stands for it"
        )
    return None


def _holder(keeper: Mapping[str, Any], sources: Sources, kib: float, where: str) -> Holder:
    """`where` most of it is, if not in the heap. Its line is where its container got more, if that was seen: that
    allocates a part of it. Else where an item of it was made, else where most of what that has was."""
    stacks: Mapping[tuple[JavaFrame, ...], int] = next(
        (found for _, found in sorted(keeper["lines"].items()) if _by_line(found, sources)), {}
    )
    lines = _by_line(stacks, sources)
    line = max(lines, key=lines.__getitem__, default=("", 0))
    through = {stack: size for stack, size in stacks.items() if sources.way(stack)[-1:] == (line,)}
    largest = _most(keeper["stacks"])
    allocated = next(iter(sources.way(largest)[-1:]), None)
    line = _passed(sources.way(_most(through)), keeper["owner"]) or line
    item = short(keeper["item"])
    of = f" of {item}" if item and keeper["container"] else item
    return Holder(
        file=line[0],
        line=line[1],
        kib=kib,
        kind=f"{keeper['container']}{of}{f' ({where})' if where else ''}" or "object",
        owner=keeper["owner"],
        stack=sources.stack(_most(through) or largest),
        allocated=allocated if allocated != line else None,
    )


def _passed(way: Sequence[Frame], owner: str) -> Frame | None:
    """The innermost line of a way that names the static field, or what that refers to: a helper of many callers has it
    as its argument, and one of them keeps."""
    fields = OF_A_CLASS.match(owner)
    if fields is None or owner.startswith(OF_THE_JDK):
        return None
    names = {*re.findall(r"\w+", fields[1])}
    return next((each for each in reversed(way) if names & {*re.findall(r"\w+", source(each))}), None)


def _most(stacks: Mapping[tuple[JavaFrame, ...], int]) -> tuple[JavaFrame, ...]:
    return max(stacks, key=stacks.__getitem__, default=())


def _by_line(stacks: Mapping[tuple[JavaFrame, ...], int], sources: Sources) -> dict[Frame, int]:
    """Bytes by the user's innermost line."""
    found: dict[Frame, int] = defaultdict(int)
    for stack, size in stacks.items():
        for line in sources.way(stack)[-1:]:
            found[line] += size
    return found
