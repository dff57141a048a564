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


def status(label: str) -> int:
    """A number of our own status: of this thread, as the main one may have ended."""
    with open(f"/proc/self/task/{threading.get_native_id()}/status") as file:  # noqa: PTH123
        return next(int(line.split()[1]) for line in file if line.startswith(label))


def touched(mib: str) -> mmap.mmap:
    """So much memory, every page of it written to."""
    memory = mmap.mmap(-1, int(mib) * MIB, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory.madvise(mmap.MADV_NOHUGEPAGE)
    for at in range(0, len(memory), 4096):
        memory[at] = 1
    return memory


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
            word, *rest = self.socket.recv(4096).decode().split()
            getattr(self, word)(*rest)

    def alloc(self, mib: str) -> None:
        self.held.append(touched(mib))
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
        os.waitpid(middle, 0)

    def exec(self) -> None:
        self.socket.close()
        os.execv(sys.executable, self.command(self.name))

    def command(self, name: str) -> list[str]:
        return [sys.executable, "-ISE", __file__, self.folder, name]

    def leave_main(self) -> None:
        """The main thread ends, another one goes on."""
        threading.Thread(target=self.without_main).start()
        ctypes.CDLL(None).syscall(SYS_EXIT, 0)

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
        `daemon`."""
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            if how == "daemon" and os.fork():
                os._exit(0)
            self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)  # says nothing
            self.held.append(touched(mib))
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

    def ignore(self) -> None:
        """Children that end are waited for by nothing."""
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        self.say()

    def end(self) -> None:
        self.say()
        os._exit(0)

    def wait(self, pid: str) -> None:
        os.waitpid(int(pid), 0)
        self.say()


if __name__ == "__main__":
    Agent(*sys.argv[1:]).serve()
