"""The classes that grow in a function's JVM: two class histograms by HotSpot's attach protocol, invocations apart.

HotSpot listens at /tmp/.java_pidPID once it was asked to: by SIGQUIT, while a file /tmp/.attach_pidPID is there
(src/hotspot/os/posix/attachListener_posix.cpp; the same in JDK 8 to 25). SIGQUIT ends a process that does not handle
it, and a JVM that may not be attached to prints its threads: neither is ever sent one. `inspectheap -live` makes a full
collection, and writes to a file that we have made: on the socket, a JVM could wait for us. All is done in steps, one
when an invocation's window closes: the JVM may be frozen between any two of them, for as long as it likes.
"""

from __future__ import annotations

import _socket
import posix

from ..linux.procfs import DIGITS, Gone
from ..support.files import SAFE_FLAGS, is_private, remove, write_private
from ..support.numbers import whole
from .histogram import MOST_TEXT_BYTES, GaveUp, growth, parse_histogram

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Generator

    from ..linux.procfs import Procfs
    from .histogram import ClassHistogram

WAIT, WAIT_MS = 20, 5000
"""The JVM has to listen within this many invocations and ms, and then the histogram has to be there within as many: a
JVM may be frozen between invocations, or have next to no CPU while they follow at once."""
SIGQUIT = 3
OPTIONS = (b"-Xrs", b"ReduceSignalUsage", b"DisableAttachMechanism")
"""Options of a JVM that handles SIGQUIT otherwise, or not at all."""
OPTIONS_MAX = 1 << 20
REPLY_BYTES = 1024
FILE_MAX = 1 << 30


class Histograms:
    """Takes them from one JVM."""

    def __init__(self, proc: Procfs, pid: int, folder: str, invocations: int) -> None:
        """`folder`: where the JVM may write a file of up to some MiB. `invocations`: from one to the other."""
        self._proc, self._pid, self._invocations = proc, pid, invocations
        self._file = f"{folder}/.truemem-lines-{pid}.histogram"
        self._socket: _socket.socket | None = None
        self._looks = self._count = self._now_ms = 0
        self._steps = self._take()

    def step(self, now_ms: int) -> dict[str, object] | None:
        """Go on, as far as that goes without waiting: each time an invocation's window closes. The members of the line,
        once all is done."""
        self._count += 1
        self._now_ms = now_ms
        try:
            next(self._steps)
            return None
        except StopIteration as done:
            members: dict[str, object] = done.value
        except (GaveUp, Gone, OSError) as error:
            why = str(error) if isinstance(error, GaveUp) else "the JVM cannot be asked"
            members = {"growthProfile": {"runtime": "java", "looks": self._looks, "gaveUp": why}}
        self.close()
        return members

    def close(self) -> None:
        """Ask no more."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        remove(self._file)

    def _take(self) -> Generator[None, None, dict[str, object]]:
        pid = self._attachable()
        address = f"/tmp/.java_pid{pid}"
        if not _is_there(address):
            yield from self._attach(pid, address)
        began, first = yield from self._histogram(address)
        while self._count < began + self._invocations:
            yield
        ended, second = yield from self._histogram(address)
        classes, rest_kib = growth(first, second, ended - began)
        profile = {"runtime": "java", "invocations": ended - began, "looks": self._looks, "restKiB": rest_kib}
        return {"growthLines": classes, "growthProfile": profile}

    def _attachable(self) -> int:
        """The innermost pid of the process, if it is a HotSpot JVM of our own user, and may be attached to."""
        status = self._proc.text(f"{self._pid}/status")
        uids, pids, caught = (_words(status, label) for label in (b"Uid:", b"NSpid:", b"SigCgt:"))
        if not self._proc.executable(self._pid).endswith("/java") or len(uids) < 2 or not caught:
            raise GaveUp("not a JVM that can be asked")
        pid = (whole(pids[-1], DIGITS) if pids else None) or self._pid
        options = b"".join(self._proc.text(f"{self._pid}/{name}", OPTIONS_MAX) for name in ("cmdline", "environ"))
        options += _counters(pid)  # which have its options from elsewhere as well
        handles = int(caught[0], 16) >> (SIGQUIT - 1) & 1
        if not handles or any(option in options for option in OPTIONS):
            raise GaveUp("the JVM was started so that it cannot be attached to")
        if uids[1] != b"%d" % posix.geteuid():
            raise GaveUp("the JVM is another user's")
        return pid

    def _attach(self, pid: int, address: str) -> Generator[None, None, None]:
        """Make the JVM listen."""
        trigger = f"/tmp/.attach_pid{pid}"
        write_private(trigger, b"")
        posix.kill(self._pid, SIGQUIT)
        for _ in self._patience():
            yield
            if _is_there(address):
                remove(trigger)
                return
        raise GaveUp("the JVM does not listen")  # the file stays: a JVM that finds it missing prints its threads

    def _patience(self) -> Generator[None, None, None]:
        """Yields once for each step that may be waited for."""
        count, now_ms = self._count, self._now_ms
        while self._count < count + WAIT or self._now_ms < now_ms + WAIT_MS:
            yield

    def _histogram(self, address: str) -> Generator[None, None, tuple[int, ClassHistogram]]:
        """The number of the step in which it was asked for, and what came."""
        asked = self._count
        write_private(self._file, b"\n")
        asking = self._socket = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
        asking.setblocking(False)
        asking.connect(address)
        asking.send(b"1\0inspectheap\0-live\0%s\0\0" % self._file.encode("utf-8", "surrogateescape"))
        self._looks += 1
        reply = b""
        for _ in self._patience():
            yield
            try:
                while (part := asking.recv(REPLY_BYTES)) and len(reply) < REPLY_BYTES:
                    reply += part
            except BlockingIOError:
                continue
            if not reply.startswith(b"0\n"):
                raise GaveUp("the JVM refuses")
            histogram = parse_histogram(_text(self._file))
            self.close()
            return asked, histogram
        raise GaveUp("no histogram came")


def _words(status: bytes, label: bytes) -> list[bytes]:
    return status.partition(b"\n" + label)[2].partition(b"\n")[0].split()


def _is_there(path: str) -> bool:
    try:
        posix.lstat(path)
    except OSError:
        return False
    return True


def _counters(pid: int) -> bytes:
    """The file that each HotSpot JVM has (see heaps.java). Raises GaveUp."""
    for folder in posix.listdir("/tmp"):
        if folder.startswith("hsperfdata_"):
            try:
                text = _text(f"/tmp/{folder}/{pid}")
            except OSError:  # another user's
                continue
            if text:
                return text
    raise GaveUp("not a JVM that can be asked")


def _text(path: str) -> bytes:
    """The beginning of the file. Raises OSError."""
    descriptor = posix.open(path, SAFE_FLAGS)
    try:
        return posix.read(descriptor, MOST_TEXT_BYTES) if is_private(descriptor, 1, most=FILE_MAX) else b""
    finally:
        posix.close(descriptor)
