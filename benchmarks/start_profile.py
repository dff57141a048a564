"""Says where the time of a cold start goes, by samples of Linux's own profiler (perf-record(1), event cpu-clock).

Each sample is a moment of CPU time: what the processor did, and in the kernel on whose behalf. Functions of CPython are
told by the source file that they come from.
"""

from __future__ import annotations

import bisect
import os
import re
import signal
import statistics
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks.contenders import MACHINE, OURS, UNSAVED, Contender
from layer import cpython, image
from layer.__main__ import default_cache
from layer.toolchain import Toolchain

HERTZ = 20_000

EXEC, FAULTS, CALLS, OTHER = "exec: the kernel maps the file", "page faults", "system calls", "the rest of the kernel"
UNMARSHAL, TYPES = "unmarshalling (marshal.c)", "creation of types (typeobject.c)"
BYTECODE, REST = "byte code: module bodies, the sidecar (ceval.c)", "the rest of CPython: objects, memory"
WAITING = "waiting: for answers, for a processor, to be spawned"

KERNEL = (
    (EXEC, re.compile(r"\b(bprm_execve|do_execveat_common|load_elf_binary|__x64_sys_execve|__arm64_sys_execve)\b")),
    (FAULTS, re.compile(r"\b(asm_exc_page_fault|exc_page_fault|do_page_fault|el0_da|el0_ia|handle_mm_fault)\b")),
    (CALLS, re.compile(r"\b(do_syscall_64|el0_svc|entry_SYSCALL_64_after_hwframe)\b")),
)
"""On whose behalf: the first that is in the chain of callers."""
SOURCES = {"marshal.o": UNMARSHAL, "typeobject.o": TYPES, "ceval.o": BYTECODE}
ROWS = (EXEC, FAULTS, CALLS, OTHER, UNMARSHAL, TYPES, BYTECODE, REST, WAITING)

SAMPLE = re.compile(r"^(\S+) +(\d+)\.(\d+): *\n\s+([0-9a-f]+) (\S+)")
"""Name of the process, time (seconds and ns), and the innermost function."""


class Symbols:
    """Which source file a function of CPython comes from, by its name or by where it is in the executable's file."""

    def __init__(self, program: Path, archive: Path) -> None:
        """`program` still has its symbols. Raises subprocess.SubprocessError and OSError if nm (binutils) cannot read
        them."""
        functions = sorted((int(line[0], 16), line[2]) for line in _nm("-n", program) if len(line) == 3)
        self._starts = [address for address, _ in functions]
        self._names = [name for _, name in functions]
        self._sources: dict[str, str] = {}
        for line in _nm("-A", archive):
            if len(line) >= 3 and line[-2].lower() == "t":
                self._sources.setdefault(line[-1], line[0].split(":")[-2])
        content = program.read_bytes()
        self._code = next(segment for segment in image.loaded(content) if segment.flags & image.EXECUTABLE)

    def group(self, offset: int, name: str) -> str:
        """Of a moment outside the kernel. Where perf knows no symbols it gives the place in the file."""
        if name == "[unknown]":
            at = bisect.bisect(self._starts, offset - self._code.offset + self._code.address) - 1
            name = self._names[at] if at >= 0 else ""
        return SOURCES.get(self._sources.get(name, ""), REST)


def _nm(option: str, path: Path) -> Iterator[list[str]]:
    done = subprocess.run(["nm", option, path], capture_output=True, text=True, check=True)
    return (line.split() for line in done.stdout.splitlines())


def grouped(chains: str, name: str, spans: Sequence[tuple[int, int]], symbols: Symbols) -> Counter[str]:
    """Number of samples in each group, of processes with that name and of those that are about to get it, within
    `spans` of time (monotonic ns). `chains` is what perf-script(1) prints: for each sample the name, the time,
    and its chain of callers, the innermost first."""
    found: Counter[str] = Counter()
    begins = [begin for begin, _ in spans]
    for chain in re.split(r"\n\s*\n", chains.strip("\n")):
        sample = SAMPLE.match(chain)
        if sample is None:
            continue
        at_ns, address, group = int(sample[2] + sample[3].ljust(9, "0")), int(sample[4], 16), OTHER
        span = bisect.bisect(begins, at_ns) - 1
        if span < 0 or at_ns > spans[span][1]:
            continue
        if address >> 63:
            group = next((group for group, called in KERNEL if called.search(chain)), OTHER)
        elif sample[1] == name:
            group = symbols.group(address, sample[5])
        if sample[1] == name or group == EXEC:
            found[group] += 1
    return found


def profile_section(contenders: Sequence[Contender], rounds: int) -> tuple[str, Sequence[str], list[list[str]], str]:
    """Ours, with and without its image. Raises OSError, subprocess.SubprocessError and RuntimeError where perf or nm is
    missing or not permitted."""
    chosen = {contender.name: contender for contender in contenders if contender.name in (OURS, UNSAVED)}
    archive = cpython.build(default_cache(), Toolchain(default_cache(), print), print).archive(MACHINE)
    program = chosen[UNSAVED].command[0]
    symbols = Symbols(Path(program), archive)  # the image's functions are at the same places
    columns: dict[str, dict[str, float]] = {}
    for name, contender in chosen.items():
        chains, spans = _sampled(contender, rounds)
        counts = grouped(chains, Path(contender.command[0]).name[:15], spans, symbols)
        columns[name] = {row: counts[row] * 1000 / HERTZ / rounds for row in ROWS}
        wall = statistics.mean(end - begin for begin, end in spans) / 1e6
        columns[name][WAITING] = max(0.0, wall - sum(columns[name].values()))
    rows = [[row, *(f"{columns[name][row]:.2f}" for name in (OURS, UNSAVED))] for row in ROWS]
    rows.append(["**exec to first `next`**", *(f"{sum(columns[name].values()):.2f}" for name in (OURS, UNSAVED))])
    text = (
        f"ms of a start: means of {rounds} starts, {HERTZ:,} samples a second, by `python -m benchmarks.start "
        "--profile`. Sampling so often slows all of it down. Without its image: the same program as it is when the "
        "layer is built. It reads its modules, initialises CPython and imports everything."
    )
    return "Where the time of a cold start goes", ("", "truemem", "without its image"), rows, text


def _sampled(contender: Contender, rounds: int) -> tuple[str, list[tuple[int, int]]]:
    """The samples, and of each start when it began and when `next` came (monotonic ns)."""
    spans: list[tuple[int, int]] = []
    with recorded("-a") as chains:
        for _ in range(rounds):
            with contender.start() as extension:
                extension.api.wait_for_next()
                spans.append((extension.began_ns, extension.api.at_ns["next"]))
    return "".join(chains), spans


@contextmanager
def recorded(*whose: str) -> Iterator[list[str]]:
    """Record samples while the block runs, of all processes (`-a`) or of one (`-p`, its id). The list has what
    perf-script(1) prints once the block has ended."""
    told, tell = os.pipe()
    answer, answered = os.pipe()
    chains: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "perf.data"
        record = ("perf", "record", "-q", "-g", "-k", "CLOCK_MONOTONIC", "-e", "cpu-clock", "-F", str(HERTZ))
        command = [*record, "-o", str(data), "--delay=-1", f"--control=fd:{told},{answered}", *whose]
        command += ["sleep", "3600"] if whose == ("-a",) else []
        recorder = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, pass_fds=(told, answered))
        for descriptor in told, answered:
            os.close(descriptor)
        try:
            os.write(tell, b"enable\n")
            if not os.read(answer, 16):  # it has ended
                raise RuntimeError(f"perf does not record: {recorder.communicate()[1].strip()}")
            yield chains
        finally:
            recorder.send_signal(signal.SIGINT)
            recorder.communicate(timeout=60)
            os.close(tell)
            os.close(answer)
        script = ["perf", "script", "-i", str(data), "--ns", "-F", "comm,time,ip,sym"]
        chains.append(subprocess.run(script, capture_output=True, text=True, check=True).stdout)
