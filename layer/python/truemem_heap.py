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
    from collections.abc import Callable
    from typing import Any

PAGE = 4096
SLOT = 256
"""Bytes for each reading. Readings use the slots in turn, because truemem may look for one after later ones were
written. docs/heap.md has the format of the page."""

FIELDS = ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost")
"""Fields of both structures, mallinfo(3)."""
SHARE = 100
"""One part in this many of the time may be used for readings, because malloc walks all its free blocks for one: 1 %."""
CREDIT_NS = 5_000_000
"""Most of that time that may be saved up."""

_blocks = getattr(sys, "getallocatedblocks", None)
"""Counts the blocks that Python's own allocator has in use. Its arenas are mapped: malloc does not know of them. Only
CPython has it."""

SETTLE = b"TRUEMEM_SETTLE"
"""Path of a file, in a run on a developer's machine: each time that it has changed, the process is settled before the
next reading. What it keeps then goes into the file of that name with `.said` at its end."""

CACHES = 1000
"""Caches with a bound of their own that are told at most."""

LINES = b"TRUEMEM_LINES"
"""Set and not `off`: the sidecar may ask for the lines that keep memory (truemem_lines)."""

TIDIED = 1000
"""Entries of the folder that are searched for pages of processes that have ended."""


def _reader() -> tuple[Callable[[], Any], str] | None:
    """glibc's function and its name. None elsewhere: musl has none."""
    if ctypes is None:
        return None
    # PyDLL keeps the GIL: giving it up costs another thread's turn, ms, for a call of µs.
    library = ctypes.PyDLL(None)
    for name, kind in (("mallinfo2", ctypes.c_size_t), ("mallinfo", ctypes.c_uint)):  # the latter until glibc 2.33
        found = getattr(library, name, None)
        if found is not None:
            found.argtypes = ()
            found.restype = type(name, (ctypes.Structure,), {"_fields_": [(field, kind) for field in FIELDS]})
            return found, name
    return None


class Page:
    """A private file of one page, made when it is first written to."""

    def __init__(self, folder: str) -> None:
        self.path = ""
        self._folder = folder
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
            self._open()
            posix.pwrite(self._descriptor, text, self._number * SLOT % PAGE)

    def forget(self) -> None:
        """Give up the page in a child after fork(): it is the parent's."""
        if self._about() is not None:
            posix.close(self._descriptor)
        self._descriptor, self.path = -1, ""

    def remove(self) -> None:
        """Remove the page at the end of the process. Raises OSError."""
        if self.path:
            posix.unlink(self.path)

    def _open(self) -> None:
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
            posix.posix_fallocate(descriptor, 0, PAGE)
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
            for entry in itertools.islice(entries, TIDIED):
                before, named, pid = entry.name.partition(".truemem-heap-")
                if named and not before and pid.isdigit() and not os.path.exists(f"/proc/{pid}"):  # noqa: PTH110 - no pathlib here
                    posix.unlink(entry.path)


class Probe:
    """Takes the readings and writes them to the page."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self._reader = _reader()
        self._credit_ns = CREDIT_NS
        self._looked_ns = time.monotonic_ns()

        self._settle = posix.environ.get(SETTLE)
        self._changed_ns = self._freed = 0
        if self._settle:
            os.environ.pop(SETTLE.decode(), None)

    @property
    def read(self) -> Callable[[], Any] | None:
        """Malloc's figures. None without glibc."""
        return self._reader[0] if self._reader else None

    def note(self, request_id: object) -> None:
        """Take a reading for an invocation that is about to end. Never raises."""
        with suppress(Exception):
            if isinstance(request_id, str) and request_id:
                self._note(request_id)

    def _note(self, request_id: str) -> None:
        if self._settle:
            self._settle_if_asked(self._settle)
        began, now = time.thread_time_ns(), time.monotonic_ns()
        self._credit_ns = min(CREDIT_NS, self._credit_ns + (now - self._looked_ns) // SHARE)
        self._looked_ns = now
        children = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss  # KiB, and half a µs: in each invocation
        if self._reader is None or self._credit_ns < 0:
            self._page.put(request_id, {"children": children})
            return
        read, source = self._reader
        heap = read()
        figures = {"children": children, "inUse": heap.uordblks // 1024, "held": heap.fordblks // 1024}
        figures["mapped"] = heap.hblkhd // 1024
        if _blocks is not None:
            figures["blocks"] = _blocks()
        figures["gc0"], figures["gc1"], figures["gc2"] = gc.get_count()
        figures["threads"] = threading.active_count()
        if source == "mallinfo":
            figures["bits"] = 32
        try:
            self._page.put(request_id, figures)
        finally:
            self._credit_ns -= time.thread_time_ns() - began

    def _settle_if_asked(self, asked: bytes) -> None:
        """Collect garbage if the file has changed, and have malloc give back what is free if it says so: its number,
        then 1 or 0. Not garbage in a function that has switched that off: there, it stays. Never raises: what it meets
        among the function's objects may not be as usual."""
        with suppress(Exception):
            changed_ns = posix.stat(asked).st_mtime_ns
            if changed_ns == self._changed_ns:
                return
            self._changed_ns = changed_ns
            with open(asked, "rb") as file:  # noqa: PTH123 - no pathlib here
                number, trims = map(int, file.read().split())
            in_use = self._in_use()
            if gc.isenabled():
                gc.collect()
                gc.collect()
            self._freed += max(0, in_use - self._in_use())
            said = {"asked": number, "garbage": self._freed, "caches": _bounded_caches()[:CACHES]}
            if _blocks is not None:
                said["blocks"] = _blocks()
            if trims and self._reader is not None:
                rss = _rss_kib()
                ctypes.PyDLL(None).malloc_trim(0)
                said["trimmed"] = max(0, rss - _rss_kib())
            import json

            with open(asked + b".said", "w") as file:  # noqa: PTH123
                json.dump(said, file)

    def _in_use(self) -> int:
        """KiB that malloc has given out; 0 without glibc."""
        if self._reader is None:
            return 0
        heap = self._reader[0]()
        return int(heap.uordblks + heap.hblkhd) // 1024


def _rss_kib() -> int:
    with open("/proc/self/statm", "rb") as file:  # noqa: PTH123
        return int(file.read().split()[1]) * PAGE // 1024


def _bounded_caches() -> list[dict[str, Any]]:
    """Those of functools, collections and cachetools that have a bound, with how full they are."""
    found = []
    wrapper = type(functools.lru_cache(len))
    for each in gc.get_objects():
        kind = type(each)
        if kind is wrapper:
            entries, bound = each.cache_info().currsize, each.cache_info().maxsize
            name = f"functools.lru_cache of {getattr(each, '__qualname__', 'a partial')}"
        elif kind is collections.deque:
            entries, bound, name = len(each), each.maxlen, "collections.deque"
        elif kind.__module__.partition(".")[0] == "cachetools" and hasattr(each, "currsize"):
            entries, bound, name = each.currsize, each.maxsize, f"cachetools.{kind.__name__}"
        else:
            continue
        if bound and entries:
            found.append({"id": id(each), "name": name, "entries": entries, "bound": bound})
    found.sort(key=lambda each: -each["entries"])
    return found


def _requests(read: Callable[[], Any] | None) -> Any:
    """Requests of truemem_lines/request.py, if they are wanted. Its code is loaded only then: without a cache it is
    compiled at each start."""
    if posix.environ.get(LINES, b"off").strip().lower() in (b"", b"off"):
        return None
    from importlib.util import module_from_spec, spec_from_file_location

    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "truemem_lines")  # noqa: PTH100, PTH118, PTH120
    spec = spec_from_file_location("truemem_lines_request", f"{folder}/request.py")
    module = module_from_spec(spec)  # type: ignore[arg-type]
    spec.loader.exec_module(module)  # type: ignore[union-attr]
    return module.Requests(_folder(), read)


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
        probe.note(invoke_id)
        return post(self, invoke_id, *arguments, **named)

    return noting


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
            probe.note(getattr(context, "aws_request_id", None))

    return watched


_probe: Probe | None = None
automatic = False
"""True if each invocation is noted without a change of the handler."""


def _start() -> None:
    global _probe, automatic  # noqa: PLW0603 - a module's state, made once
    page = Page(_folder())
    _probe = Probe(page)
    requests = _requests(_probe.read)
    automatic = _hook(_probe, requests)
    os.register_at_fork(after_in_child=page.forget)
    if requests is not None:
        os.register_at_fork(after_in_child=requests.stop)
    atexit.register(_remove, page)


def _remove(page: Page) -> None:
    with suppress(OSError):
        page.remove()


if b"AWS_LAMBDA_RUNTIME_API" in posix.environ:
    with suppress(Exception):
        _start()
