"""Adds malloc's own figures to truemem's line: `import truemem_heap` tells memory in use from memory that malloc keeps.

It also notes how large the function's child processes were, which the sidecar cannot see after their end.

The layer has this module, and Lambda has the layer on the path of a Python function. It does nothing until it is
imported, and nothing outside Lambda. Its errors do not reach the function. It uses only the standard library, of Python
3.8 or newer.

Under AWS's runtime client each reading is taken just before the answer is sent. With another client, or if `automatic`
is False, decorate the handler:

    @truemem_heap.watch
    def handler(event, context): ...
"""

from __future__ import annotations

import atexit
import collections
import functools
import gc
import itertools
import os
import posix
import sys
import threading
import time
from contextlib import suppress

try:
    import ctypes
except ImportError:  # a Python that was built without: no figures then
    ctypes = None  # type: ignore[assignment]
try:
    import resource
except ImportError:  # the same: nothing is noted then
    resource = None  # type: ignore[assignment]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

PAGE_BYTES = 4096
SLOT = 256
"""Bytes for each reading. Readings use the slots in turn, because truemem may look for one after later ones were
written. docs/heap.md has the format of the page."""

MALLINFO_FIELDS = (
    "arena",
    "ordblks",
    "smblks",
    "hblks",
    "hblkhd",
    "usmblks",
    "fsmblks",
    "uordblks",
    "fordblks",
    "keepcost",
)
"""Fields of both structures, mallinfo(3)."""
REPLACEMENT_FUNCTIONS = ("mallctl", "MallocExtension_ReleaseFreeMemory", "mi_collect")
"""Functions of jemalloc, tcmalloc and mimalloc, which every library can call where that is malloc."""
SHARE = 100
"""One part in this many of the time may be used for readings, because malloc walks all its free blocks for one: 1 %."""
CREDIT_NS = 5_000_000
"""Most of that time that may be saved up."""

_blocks = getattr(sys, "getallocatedblocks", None)
"""Counts the blocks that Python's own allocator has in use. Its arenas are mapped: malloc does not know of them. Only
CPython has it."""
STATISTICS = 8192
"""Bytes for what CPython says of that allocator: a text of 3,000."""

SETTLE = b"TRUEMEM_SETTLE"
"""`off`: the process is never settled. Path of a file, in a run on a developer's machine: it is settled after the next
answer each time that the file has changed. What it keeps then goes into the file of that name with `.said` at its end.
"""
FIRST_SETTLED = 64
"""Answers after which the process is first settled, if SETTLE has no path; then after twice as many, and so on."""
SETTLED_SHARE = 50
"""Settling takes one part in this many of the process's CPU time, at most."""
SPARE_TIMES = 10
"""Settling must fit so many times into what is left until the timeout."""
VCPU_MIB = 1769
"""Memory size that buys one vCPU: with less, it takes as many times longer."""
BLOCK_NS = 300
"""CPU time that settling may take for each block of Python's allocator, before it was done once."""

CACHES = 1000
"""Caches with a bound of their own that are told at most."""

LINES_VARIABLE = b"TRUEMEM_LINES"
"""Set and not `off`: the sidecar may ask for the lines that keep memory (truemem_lines)."""

MOST_ENTRIES_TIDIED = 1000
"""Entries of the folder that are searched for pages of processes that have ended."""


def _is_replaced(library: ctypes.PyDLL) -> bool:
    """True if glibc's malloc is not the one of this process. `library`: all that it can call."""
    return any(hasattr(library, name) for name in REPLACEMENT_FUNCTIONS)


def _reader() -> tuple[Callable[[], Any], str] | None:
    """glibc's function and its name. None elsewhere: musl has none, and where another library is malloc, glibc's knows
    nothing of it."""
    if ctypes is None:
        return None
    # PyDLL keeps the GIL: giving it up costs another thread's turn, ms, for a call of µs.
    library = ctypes.PyDLL(None)
    if _is_replaced(library):
        return None
    for name, kind in (("mallinfo2", ctypes.c_size_t), ("mallinfo", ctypes.c_uint)):  # the latter until glibc 2.33
        found = getattr(library, name, None)
        if found is not None:
            found.argtypes = ()
            found.restype = type(name, (ctypes.Structure,), {"_fields_": [(field, kind) for field in MALLINFO_FIELDS]})
            return found, name
    return None


def _small_reader() -> Callable[[], int] | None:
    """Returns a function that says how many bytes Python's own allocator has in use, in 13 µs; None where that is not
    known. CPython writes its statistics as a text, here into memory, by no public function: only versions are asked
    that have it as we know it."""
    if ctypes is None or sys.version_info >= (3, 15):
        return None
    library = ctypes.PyDLL(None)
    page = ctypes.create_string_buffer(STATISTICS)

    def read() -> int:
        library.rewind(file)
        library._PyObject_DebugMallocStats(file)
        library.fflush(file)
        about = page.value.partition(b"bytes in allocated blocks")[2].partition(b"\n")[0]
        return int(about.strip(b" =").replace(b",", b""))

    try:
        library.fmemopen.restype = ctypes.c_void_p
        file = ctypes.c_void_p(library.fmemopen(page, STATISTICS, b"w"))
        return read if file and read() else None
    except Exception:
        return None


class PageFile:
    """A private file of one page, made when it is first written to."""

    def __init__(self, folder: str, head: bytes = b"") -> None:
        """`head`: what stands in the page's first slot. Readings take the others."""
        self.path, self._folder, self._head = "", folder, head
        self._descriptor = -1
        self._identity = (0, 0)
        self._number = 0

    def put(self, request_id: str, figures: dict[str, int]) -> None:
        """Write one reading, in one write within one page. Raises OSError, UnicodeError."""
        self._number += 1
        members = "".join(f" {name}={figure}" for name, figure in figures.items())
        about = f"{self._number} {request_id} {time.time_ns() // 1_000_000} python{members} {self._number}"
        text = f"truemem-heap-3 {about}\n".encode("ascii")
        if len(text) <= SLOT:
            self.open()
            posix.pwrite(self._descriptor, text, SLOT + self._number * SLOT % (PAGE_BYTES - SLOT))

    def forget(self) -> None:
        """Give up the page in a child after fork(): it is the parent's."""
        if self._about() is not None:
            posix.close(self._descriptor)
        self._descriptor, self.path = -1, ""

    def remove(self) -> None:
        """Remove the page at the end of the process."""
        with suppress(OSError):
            posix.unlink(self.path)

    def open(self) -> None:
        """Make the page, if it is not there. Raises OSError."""
        about = self._about()
        if about is not None:
            if about.st_nlink:
                return
            posix.close(self._descriptor)  # /tmp was emptied
        if not self.path:
            self._tidy()
        self._descriptor, self.path = -1, f"{self._folder}/.truemem-heap-{posix.getpid()}"
        with suppress(FileNotFoundError):
            posix.unlink(self.path)  # of an earlier process with this pid; a link is not followed
        flags = posix.O_RDWR | posix.O_CREAT | posix.O_EXCL | posix.O_NOFOLLOW | posix.O_CLOEXEC
        descriptor = posix.open(self.path, flags, 0o600)
        try:
            posix.posix_fallocate(descriptor, 0, PAGE_BYTES)
            posix.pwrite(descriptor, self._head, 0)
        except OSError:
            posix.close(descriptor)
            raise
        about = posix.fstat(descriptor)
        self._descriptor, self._identity = descriptor, (about.st_dev, about.st_ino)

    def _about(self) -> os.stat_result | None:
        """State of the opened file. None if it was never opened, or if the function has closed its descriptor."""
        try:
            about = posix.fstat(self._descriptor)
        except OSError:
            return None
        return about if (about.st_dev, about.st_ino) == self._identity else None

    def _tidy(self) -> None:
        """Remove pages of processes that were killed: /tmp outlives them, and is small."""
        with suppress(OSError), posix.scandir(self._folder) as entries:
            for entry in itertools.islice(entries, MOST_ENTRIES_TIDIED):
                before, named, pid = entry.name.partition(".truemem-heap-")
                if named and not before and pid.isdigit() and not os.path.exists(f"/proc/{pid}"):  # noqa: PTH110 - no pathlib here
                    posix.unlink(entry.path)


class Probe:
    """Takes the readings and writes them to the page."""

    def __init__(self, page: PageFile) -> None:
        self._page = page
        self._reader, self._small = _reader(), _small_reader()
        self._credit_ns = CREDIT_NS
        self._looked_ns = time.monotonic_ns()
        self._settling = Settling(self._in_use, self._small)

    @property
    def small(self) -> Callable[[], int] | None:
        """Bytes that Python's own allocator has given out. None where that is not known."""
        return self._small

    @property
    def read(self) -> Callable[[], Any] | None:
        """Malloc's figures. None without glibc."""
        return self._reader[0] if self._reader else None

    def note(self, request_id: object) -> bool:
        """Take a reading for an invocation that is about to end. Never raises. Returns True if the process is to be
        settled after its answer: then the reading is taken there (`settle`)."""
        with suppress(Exception):
            if isinstance(request_id, str) and request_id:
                if self._settling.is_due():
                    return True
                self._note(request_id, {})
        return False

    def settle(self, request_id: Any) -> None:
        """Settle the process, and take a reading. Never raises: what it meets among the function's objects may not be
        as usual."""
        with suppress(Exception):
            self._note(request_id, self._settling.settle())

    def begun(self, deadline_ms: object) -> None:
        """The invocation that has come ends at this time, epoch ms. Never raises."""
        with suppress(Exception):
            self._settling.deadline_ms = int(deadline_ms)  # type: ignore[call-overload]

    def _note(self, request_id: str, settled: dict[str, int]) -> None:
        began, now = time.thread_time_ns(), time.monotonic_ns()
        self._credit_ns = min(CREDIT_NS, self._credit_ns + (now - self._looked_ns) // SHARE)
        self._looked_ns = now
        children = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss  # KiB, and half a µs: in each invocation
        if self._reader is None or (self._credit_ns < 0 and not settled):
            self._page.put(request_id, {"children": children})
            return
        read, source = self._reader
        heap = read()
        figures = {"children": children, "inUse": heap.uordblks // 1024, "held": heap.fordblks // 1024}
        figures["mapped"] = heap.hblkhd // 1024
        if _blocks is not None:
            figures["blocks"] = _blocks()
        if self._small is not None:
            figures["small"] = self._small() // 1024
        figures["gc0"], figures["gc1"], figures["gc2"] = gc.get_count()
        figures["threads"] = threading.active_count()
        if source == "mallinfo":
            figures["bits"] = 32
        try:
            self._page.put(request_id, {**figures, **settled})
        finally:
            self._credit_ns -= time.thread_time_ns() - began

    def _in_use(self) -> int:
        """KiB that malloc has given out, and Python's own allocator; 0 without glibc."""
        if self._reader is None:
            return 0
        heap = self._reader[0]()
        return int(heap.uordblks + heap.hblkhd + (self._small() if self._small is not None else 0)) // 1024


class Settling:
    """Settles the process: garbage is collected, and what is in use then is kept."""

    def __init__(self, in_use: Callable[[], int], small: Callable[[], int] | None = None) -> None:
        """`in_use`: KiB. `small`: bytes of it that are Python's own allocator's."""
        self._in_use, self._small = in_use, small
        self._linked = functools.cache(lambda: tuple(_linked_allocators()))  # made once: they would be in what is read
        said = posix.environ.get(SETTLE, b"")
        self._path = said if said.startswith(b"/") else None
        size = posix.environ.get(b"AWS_LAMBDA_FUNCTION_MEMORY_SIZE", b"")
        self._slower = max(1.0, VCPU_MIB / max(1, int(size))) if size.isdigit() else 1.0
        is_off = said.strip().lower() == b"off" or b"AWS_LAMBDA_MAX_CONCURRENCY" in posix.environ  # Managed Instances
        self._next = sys.maxsize if is_off else FIRST_SETTLED
        self._answers = self._changed_ns = self._freed = self._spent_ns = self._cost_ns = self.deadline_ms = 0
        self._entries: dict[int, int] = {}
        """Number of entries of each cache with a bound, by its id."""
        self._filling = 0
        """The id of the one that gained most."""
        if self._path:
            os.environ.pop(SETTLE.decode(), None)

    def is_due(self) -> bool:
        """Asked at each answer."""
        if self._path:
            before = self._changed_ns
            with suppress(OSError):  # it is not there before it is asked first
                self._changed_ns = posix.stat(self._path).st_mtime_ns
            return self._changed_ns != before
        self._answers += 1
        return self._answers >= self._next and self._is_cheap()

    def _is_cheap(self) -> bool:
        cost_ns = self._cost_ns or BLOCK_NS * (_blocks() if _blocks is not None else 1_000_000)
        left_ns = self.deadline_ms * 1_000_000 - time.time_ns()
        return (
            left_ns > SPARE_TIMES * cost_ns * self._slower
            and (self._spent_ns + cost_ns) * SETTLED_SHARE < time.process_time_ns()
        )

    def settle(self) -> dict[str, int]:
        """What is kept, and all that was freed so far, KiB; and room in the cache that fills most. Garbage stays in a
        function that has switched its collection off. Raises whatever objects of the function raise."""
        began_ns, in_use = time.thread_time_ns(), self._in_use()
        while self._next <= self._answers:
            self._next *= 2
        if gc.isenabled():
            gc.collect()
            if self._path:  # what a finalizer lets go of; elsewhere it is too little for twice the time
                gc.collect()
        kept = self._in_use()
        self._freed += max(0, in_use - kept)
        caches = _bounded_caches()[:CACHES]
        figures = {"kept": kept, "garbage": self._freed} if kept else {}
        if (room := self._room(caches)) is not None:
            figures["room"] = room
        self._cost_ns = max(self._cost_ns, time.thread_time_ns() - began_ns)
        self._spent_ns += self._cost_ns
        if self._path:
            self._say(self._path, caches)
        return figures

    def _room(self, caches: list[dict[str, Any]]) -> int | None:
        """Entries until the cache is full that gained most since the last time; None if none ever gained one, and where
        it is another one than before: of two caches no difference tells anything."""
        gained = {each["id"]: each["entries"] - self._entries.get(each["id"], each["entries"]) for each in caches}
        self._entries = {each["id"]: each["entries"] for each in caches}
        most = max(gained, key=gained.__getitem__, default=0)
        if gained.get(most, 0) > 0 and self._filling != most:
            self._filling = most
            return None
        return next((each["bound"] - each["entries"] for each in caches if each["id"] == self._filling), None)

    def _say(self, path: bytes, caches: list[dict[str, Any]]) -> None:
        """More of it, for who runs it on a machine of his own; and have allocators give back what is free if the file
        says so: its number, then 1 or 0."""
        import json

        with open(path, "rb") as file:  # noqa: PTH123 - no pathlib here
            number, trims = map(int, file.read().split())
        said = {"asked": number, "garbage": self._freed, "caches": caches}
        if _blocks is not None:
            said["blocks"] = _blocks()
        if self._small is not None:
            said["small"] = self._small() // 1024
        said["allocators"] = asked = []
        for each in (*_arrow_pool(), *self._linked()):
            with suppress(Exception):  # the function may have put another object in the place of pyarrow's
                asked.append(_asked(bool(trims), *each))
        if trims and asked:
            said["trimmed"] = sum(each["gave"] for each in asked)
        own = b".%d" % posix.getpid() if b"AWS_LAMBDA_MAX_CONCURRENCY" in posix.environ else b""
        with open(path + b".said" + own, "w") as file:  # noqa: PTH123
            json.dump(said, file)


def _asked(
    trims: bool, name: str, give_back: Callable[[], object], figures: Callable[[], dict[str, int]]
) -> dict[str, Any]:
    """What an allocator says when it has given back what is free, if `trims`: by how much RSS fell (`gave`, KiB), and
    its own figures."""
    rss = _rss_kib()
    if trims:
        give_back()
    return {"name": name, "gave": max(0, rss - _rss_kib()), **figures()}


def _linked_allocators() -> Iterator[tuple[str, Callable[[], object], Callable[[], dict[str, int]]]]:
    """Allocators whose functions every library of this process can call, as those are that LD_PRELOAD names: name, what
    makes it give back, and its figures: bytes in use, where it says them. mimalloc gives back for one thread alone."""
    if ctypes is None:
        return
    library = ctypes.PyDLL(None)
    value, size = ctypes.c_size_t(), ctypes.c_size_t(ctypes.sizeof(ctypes.c_size_t))
    if hasattr(library, "mallctl"):
        control = library.mallctl
        control.argtypes = (ctypes.c_char_p, *[ctypes.c_void_p] * 3, ctypes.c_size_t)

        def jemalloc() -> dict[str, int]:
            control(b"thread.tcache.flush", None, None, None, 0)  # which it counts as given out
            control(b"epoch", None, None, ctypes.byref(ctypes.c_uint64(1)), 8)  # its figures are of now
            failed = control(b"stats.allocated", ctypes.byref(value), ctypes.byref(size), None, 0)
            return {} if failed else {"inUse": value.value}

        yield "jemalloc", lambda: control(b"arena.4096.purge", None, None, None, 0), jemalloc  # MALLCTL_ARENAS_ALL
    if hasattr(library, "MallocExtension_ReleaseFreeMemory"):

        def tcmalloc() -> dict[str, int]:
            known = library.MallocExtension_GetNumericProperty(b"generic.current_allocated_bytes", ctypes.byref(value))
            return {"inUse": value.value} if known & 1 else {}

        yield "tcmalloc", library.MallocExtension_ReleaseFreeMemory, tcmalloc
    if hasattr(library, "mi_collect"):
        yield "mimalloc", functools.partial(library.mi_collect, 1), dict
    if hasattr(library, "malloc_trim") and not _is_replaced(library):
        yield "malloc", functools.partial(library.malloc_trim, 0), dict


def _arrow_pool() -> Iterator[tuple[str, Callable[[], object], Callable[[], dict[str, int]]]]:
    """Name, trim and reading of pyarrow's pool of memory, if the function uses one that has an allocator of its own.
    Its functions are hidden. With `at`, an address in its memory: what its threads hold cannot be asked for, but is
    seen there."""
    with suppress(Exception):  # it may be half imported
        arrow = sys.modules["pyarrow"]
        name = arrow.default_memory_pool().backend_name
        pool = getattr(arrow, f"{name}_memory_pool")()  # all of it: the default one may be a part
        if name != "system" and pool.max_memory():
            at = arrow.allocate_buffer(1, memory_pool=pool).address
            yield f"pyarrow's {name}", pool.release_unused, lambda: {"inUse": pool.bytes_allocated(), "at": at}


def _rss_kib() -> int:
    with open("/proc/self/statm", "rb") as file:  # noqa: PTH123
        return int(file.read().split()[1]) * PAGE_BYTES // 1024


def _bounded_caches() -> list[dict[str, Any]]:
    """Caches of functools, collections, re and cachetools that have a bound, with how full they are."""
    found: list[dict[str, Any]] = []
    of_re, tools = sys.modules.get("re"), sys.modules.get("cachetools")
    patterns, bound = getattr(of_re, "_cache", None), getattr(of_re, "_MAXCACHE", 0)
    if patterns:
        found.append({"id": id(patterns), "name": "re", "entries": len(patterns), "bound": bound})
    wrapper = type(functools.lru_cache(len))
    kinds = {id(kind) for kind in (wrapper, collections.deque, *_with_heirs(getattr(tools, "Cache", None)))}
    for each in gc.get_objects():
        kind = type(each)
        if id(kind) not in kinds:  # a class may have a hash of its own
            continue
        with suppress(Exception):  # it may be half made
            if kind is wrapper:
                entries, bound = each.cache_info().currsize, each.cache_info().maxsize
                name = f"functools.lru_cache of {getattr(each, '__qualname__', 'a partial')}"
            elif kind is collections.deque:
                entries, bound, name = len(each), each.maxlen, "collections.deque"
            else:  # not by its own properties: a TTLCache lets entries go when it is asked
                entries, bound = tools.Cache.currsize.fget(each), tools.Cache.maxsize.fget(each)  # type: ignore[union-attr]
                name = f"cachetools.{kind.__name__}"
            if bound and entries:
                found.append({"id": id(each), "name": name, "entries": int(entries), "bound": int(bound)})
    found.sort(key=lambda each: -each["entries"])
    return found


def _with_heirs(kind: type | None) -> list[type]:
    """A class and all that inherit from it; none of None."""
    return [] if kind is None else [kind, *itertools.chain(*map(_with_heirs, type.__subclasses__(kind)))]


def _requests(read: Callable[[], Any] | None, small: Callable[[], int] | None) -> Any:
    """ProfileRequests of truemem_lines/request.py, if they are wanted. Its code is loaded only then: without a cache it
    is compiled at each start."""
    if posix.environ.get(LINES_VARIABLE, b"off").strip().lower() in (b"", b"off"):
        return None
    from importlib.util import module_from_spec, spec_from_file_location

    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "truemem_lines")  # noqa: PTH100, PTH118, PTH120
    spec = spec_from_file_location("truemem_lines_request", f"{folder}/request.py")
    module = module_from_spec(spec)  # type: ignore[arg-type]
    spec.loader.exec_module(module)  # type: ignore[union-attr]
    return module.ProfileRequests(_folder(), read, small)


def _stacks() -> bytes:
    """Where this process has its threads' stacks: truemem reads there, from outside, which line runs when memory runs
    out. Version; addresses of the main thread's state, and of the types of code, strings and bytes; the folder of the
    function's code. Empty where it is not known."""
    state = getattr(ctypes and ctypes.PyDLL(None), "PyThreadState_Get", None)
    if state is None or sys.implementation.name != "cpython" or threading.get_ident() != threading.main_thread().ident:
        return b""
    state.restype = ctypes.c_void_p
    numbers = (*sys.version_info[:2], state(), *map(id, (type(_stacks.__code__), str, bytes)))
    said = b"truemem-stacks-1 %d.%d %d %d %d %d " % numbers + posix.environ.get(b"LAMBDA_TASK_ROOT", b"/var/task")
    return said + b"\n" if len(said) < SLOT else b""


def _folder() -> str:
    """The folder in which truemem looks: /tmp, or a folder below it that TMPDIR named at the start of the process."""
    tmp = posix.environ.get(b"TMPDIR", b"").decode("utf-8", "surrogateescape")
    return tmp.rstrip("/") if tmp.startswith("/tmp/") and ".." not in tmp else "/tmp"


def _hook(probe: Probe, requests: Any = None) -> bool:
    """Have AWS's runtime client note each invocation before it posts the answer, if it is the client that we know.

    There, and not around the handler: a frame of ours would be the first of each error's stack trace.
    """
    module = sys.modules.get("awslambdaric.lambda_runtime_client")
    for kind in list(vars(module).values()) if module is not None else []:
        if _is_class(kind) and (waits := vars(kind).get("wait_next_invocation")) is not None:
            kind.wait_next_invocation = _timing(waits, probe)
        posts = [vars(kind).get(f"post_invocation_{end}") for end in ("result", "error")] if _is_class(kind) else []
        if posts and all(map(_takes_a_request, posts)):
            for post in posts:
                noting = _noting(post, probe)
                setattr(kind, post.__name__, noting if requests is None else requests.around(noting))
            return True
    return False


def _is_class(kind: object) -> bool:
    return isinstance(kind, type)


def _takes_a_request(post: Any) -> bool:
    code = getattr(post, "__code__", None)
    return code is not None and code.co_varnames[: code.co_argcount][:2] == ("self", "invoke_id")


def _noting(post: Callable[..., Any], probe: Probe) -> Callable[..., Any]:
    @functools.wraps(post)
    def noting(self: Any, invoke_id: Any, *arguments: Any, **named: Any) -> Any:
        if not probe.note(invoke_id):
            return post(self, invoke_id, *arguments, **named)
        try:
            return post(self, invoke_id, *arguments, **named)
        finally:
            probe.settle(invoke_id)

    return noting


def _timing(waits: Callable[..., Any], probe: Probe) -> Callable[..., Any]:
    @functools.wraps(waits)
    def timing(*arguments: Any, **named: Any) -> Any:
        request = waits(*arguments, **named)
        probe.begun(getattr(request, "deadline_time_in_ms", None))
        return request

    return timing


def watch(handler: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a handler so that each invocation is noted. Returns the handler itself if that is done already."""
    probe = _probe
    if automatic or probe is None:
        return handler

    @functools.wraps(handler)
    def watched(event: Any, context: Any, *arguments: Any, **named: Any) -> Any:
        try:
            return handler(event, context, *arguments, **named)
        finally:
            request_id = getattr(context, "aws_request_id", None)
            if probe.note(request_id):
                probe.settle(request_id)

    return watched


_probe: Probe | None = None
automatic = False
"""True if each invocation is noted without a change of the handler."""


def _start() -> None:
    global _probe, automatic  # noqa: PLW0603 - a module's state, made once
    page = PageFile(_folder(), _stacks())
    _probe = Probe(page)
    requests = _requests(_probe.read, _probe.small)
    automatic = _hook(_probe, requests)
    os.register_at_fork(after_in_child=page.forget)
    if requests is not None:
        os.register_at_fork(after_in_child=requests.stop)
    atexit.register(page.remove)
    page.open()  # the first invocation may be the last


if b"AWS_LAMBDA_RUNTIME_API" in posix.environ:
    with suppress(Exception):
        _start()
