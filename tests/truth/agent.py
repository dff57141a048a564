"""A process of the function that does what it is told: one step at a time, over a socket named after it.

Its own program, not a module of the tests: it is executed again and again.
"""

import contextlib
import ctypes
import gc
import mmap
import os
import platform
import runpy
import signal
import socket
import sys
import threading
import time

MIB = 1 << 20
ROOT = __file__.rpartition("/tests/")[0]
HIDING = f"{ROOT}/testing/functions/hiding.py"
SYS_EXIT = 93 if platform.machine() == "aarch64" else 60
NO_CHILD_WAIT = 2
"""SA_NOCLDWAIT of sigaction(2)."""

libc = ctypes.CDLL(None)  # without the interpreter's lock


def status(label: str) -> int:
    """A number of our own status: of this thread, as the main one may have ended."""
    with open(f"/proc/self/task/{threading.get_native_id()}/status") as file:  # noqa: PTH123
        return next(int(line.split()[1]) for line in file if line.startswith(label))


def touched(mib: str, advice: int = mmap.MADV_NOHUGEPAGE) -> mmap.mmap:
    """So much memory, every page of it written to."""
    memory = mmap.mmap(-1, int(mib) * MIB, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory.madvise(advice)
    for at in range(0, len(memory), 4096):
        memory[at] = 1
    return memory


class Action(ctypes.Structure):
    """struct sigaction of glibc."""

    _fields_ = (
        ("handler", ctypes.c_void_p),
        ("mask", ctypes.c_ubyte * 128),
        ("flags", ctypes.c_int),
        ("restorer", ctypes.c_void_p),
    )


def spawn_when_opened(fifo: str, command: list[str]) -> None:
    """By posix_spawn(). Its child opens `fifo` before exec(), and waits there for the other end."""
    actions = ctypes.create_string_buffer(256)
    libc.posix_spawn_file_actions_init(actions)
    libc.posix_spawn_file_actions_addopen(actions, 0, fifo.encode(), os.O_RDONLY, 0)
    words = (ctypes.c_char_p * (len(command) + 1))(*[word.encode() for word in command])
    variables = ctypes.c_void_p.in_dll(libc, "environ")
    libc.posix_spawn(ctypes.byref(ctypes.c_int()), command[0].encode(), actions, None, words, variables)


def is_waiting(pid: str) -> bool:
    with open(f"/proc/{pid}/stat") as file:  # noqa: PTH123
        return file.read().rpartition(")")[2].split()[0] == "S"


class Agent:
    def __init__(self, folder: str, name: str) -> None:
        self.folder = folder
        self.held: list[mmap.mmap] = []
        self.listen(name)
        self.say()

    def listen(self, name: str) -> None:
        self.name = name
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        path = f"{self.folder}/{name}"
        if os.path.exists(path):  # noqa: PTH110
            os.unlink(path)  # noqa: PTH108
        self.socket.bind(path)
        self.socket.settimeout(60)  # the test has been killed: end, too

    def say(self, more: str = "") -> None:
        """A step is done: name, pid, highest level since the last exec or fork."""
        self.socket.sendto(f"{self.name} {os.getpid()} {status('VmHWM')} {more}".encode(), f"{self.folder}/driver")

    def serve(self) -> None:
        while True:
            self.do(self.socket.recv(4096))

    def do(self, step: bytes) -> None:
        word, *rest = step.decode().split()
        getattr(self, word)(*rest)

    def poll(self) -> None:
        """The next step is taken by a thread that is made for it and ends before the step begins, as the client of
        Python 3.12 and later takes an event."""
        taken: list[bytes] = []
        thread = threading.Thread(target=lambda: taken.append(self.socket.recv(4096)))
        thread.start()
        self.say()
        thread.join()
        self.do(taken[0])

    def alloc(self, mib: str) -> None:
        self.held.append(touched(mib))
        self.say()

    def huge(self, mib: str) -> None:
        """The same in huge pages, where the kernel has them."""
        self.held.append(touched(mib, mmap.MADV_HUGEPAGE))
        self.say()

    def free(self) -> None:
        for memory in self.held:
            memory.close()
        self.held.clear()
        self.say()

    def fork(self, name: str) -> None:
        """A child that goes on as `name`, and says so."""
        if not os.fork():
            self.listen(name)
            self.say()

    def spawn(self, name: str) -> None:
        """The same by vfork() and exec()."""
        os.posix_spawn(sys.executable, self.command(name), os.environ)

    def hold(self, name: str) -> None:
        """A child of vfork() that waits before exec(): until then it has our memory. It goes on as `name` when the
        other end of its fifo is opened."""
        fifo = f"{self.folder}/{name}.fifo"
        os.mkfifo(fifo)
        thread = threading.Thread(target=spawn_when_opened, args=(fifo, self.command(name)), daemon=True)
        thread.start()
        pid = ""
        while not (pid and is_waiting(pid)):
            time.sleep(0.001)
            with open(f"/proc/self/task/{thread.native_id}/children") as file:  # noqa: PTH123
                pid = file.read().strip()
        self.say(pid)

    def daemon(self, name: str) -> None:
        """The same, but nothing of ours is its parent."""
        middle = os.fork()
        if not middle:
            middle = os.getpid()
            if not os.fork():
                while os.getppid() == middle:
                    time.sleep(0.001)
                self.listen(name)
                self.say()
                self.serve()
            os._exit(0)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(middle, 0)

    def exec(self) -> None:
        self.socket.close()
        os.execv(sys.executable, self.command(self.name))

    def command(self, name: str) -> list[str]:
        return [sys.executable, "-ISE", __file__, self.folder, name]

    def leave_main(self) -> None:
        """The main thread ends, another one goes on."""
        threading.Thread(target=self.without_main).start()
        libc.syscall(SYS_EXIT, 0)

    def without_main(self) -> None:
        main = f"/proc/self/task/{os.getpid()}/stat"
        while True:
            with open(main) as file:  # noqa: PTH123
                if ") Z " in file.read():
                    break
            time.sleep(0.001)
        self.say()
        self.serve()

    def quick(self, mib: str, how: str = "waited") -> None:
        """A child that holds so much, and ends: nothing has time to look at it. It is `waited` for, or `left`, or a
        `daemon`; `huge`: in huge pages."""
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            if how == "daemon" and os.fork():
                os._exit(0)
            self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)  # says nothing
            self.held.append(touched(mib, mmap.MADV_HUGEPAGE if how == "huge" else mmap.MADV_NOHUGEPAGE))
            os.write(writing, f"{status('VmHWM')} {os.getpid()}".encode())
            os._exit(0)
        os.close(writing)
        peak = os.read(reading, 64).decode()
        os.close(reading)
        if how != "left":
            with contextlib.suppress(ChildProcessError):
                os.waitpid(child, 0)
        self.say(peak)

    def churn(self, mib: str) -> None:
        """Threads map and unmap at random."""
        event = {"count": 4, "mib": int(mib), "rounds": 3}
        truth = runpy.run_path(HIDING)["threads"](event)
        gc.collect()  # the module's functions and its globals hold each other
        self.say(str(truth))

    def reset(self) -> None:
        """Hostile: our own watermark, back to the level."""
        with open("/proc/self/clear_refs", "w") as file:  # noqa: PTH123
            file.write("5")
        self.say()

    def sigchld(self, how: str) -> None:
        """What becomes of children that end: where the signal is `ignored`, or has SA_NOCLDWAIT (`nocldwait`), they are
        waited for by nothing, and the kernel adds their page faults to nothing. Or `default`."""
        action = Action(handler=int(signal.SIG_IGN if how == "ignored" else signal.SIG_DFL))
        action.flags = NO_CHILD_WAIT if how == "nocldwait" else 0
        libc.sigaction(signal.SIGCHLD, ctypes.byref(action), None)
        self.say()

    def end(self) -> None:
        self.say()
        os._exit(0)

    def wait(self, pid: str) -> None:
        os.waitpid(int(pid), 0)
        self.say()


if __name__ == "__main__":
    Agent(*sys.argv[1:]).serve()
