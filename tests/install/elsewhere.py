"""Runs commands as macOS or Windows would, as far as Linux can play them: `python elsewhere.py SYSTEM FOLDER COMMANDS`.

COMMANDS is a list of lists of arguments, in JSON. Each has a process of its own, forked from one that has imported the
packages, and writes to FOLDER: 0.out and 0.err are those of the first. Printed as JSON: the exit codes.

What those systems lack is taken away: modules, functions and constants of the standard library, and /proc. The packages
of others are imported before that, as they choose by the system which of their modules they load.
"""

import asyncio.subprocess
import builtins
import concurrent.futures.process
import importlib
import json
import multiprocessing
import os
import select
import shutil
import signal
import sys
import tempfile
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

__all__ = ["asyncio", "concurrent", "multiprocessing", "shutil", "tempfile"]  # loaded as Linux loads them

PACKAGES = [
    "aiohttp",
    "boto3",
    "click",
    "duckdb",
    "matplotlib.pyplot",
    "numpy",
    "psutil",
    "rich.console",
    "rich.progress",
    "rich.table",
    "rich.traceback",
    "yaml",
]
LINUX = {
    os: "sched_getaffinity sched_setaffinity memfd_create pidfd_open eventfd setns unshare O_TMPFILE O_PATH",
    select: "epoll",
    signal: "SIGPWR SIGSTKFLT",
}
"""What macOS has not: "Availability: Linux" in the library's documentation."""
POSIX = {
    os: "fork forkpty geteuid getuid getgid getegid setuid setgid setsid getpgid killpg mkfifo chroot O_NOFOLLOW"
    " O_CLOEXEC O_NONBLOCK O_DIRECTORY register_at_fork",
    select: "poll",
    signal: "SIGHUP SIGQUIT SIGPIPE SIGUSR1 SIGUSR2 SIGKILL SIGCHLD SIGALRM SIGSTOP SIGCONT pthread_sigmask SIG_BLOCK"
    " SIG_SETMASK sigwait setitimer",
}
"""What Windows lacks as well."""
MODULES = {"darwin": (), "win32": ("fcntl", "grp", "pwd", "resource", "termios", "tty", "pty")}


def play(system: str) -> None:
    """Take away what the system lacks. Only the standard library's own modules keep what they have imported."""
    for name in PACKAGES:
        importlib.import_module(name)
    for module, names in [*LINUX.items(), *(POSIX.items() if system == "win32" else ())]:
        for name in names.split():
            if hasattr(module, name):
                delattr(module, name)
    for name in MODULES[system]:
        sys.modules[name] = None  # type: ignore[assignment]  # an import raises ImportError
    if system == "win32":
        sys.modules["msvcrt"] = made = types.ModuleType("msvcrt")
        made.__dict__.update(LK_LOCK=1, locking=lambda descriptor, mode, count: None)
    contexts = multiprocessing.context._concrete_contexts  # type: ignore[attr-defined]
    for name in ("fork", "forkserver") if system == "win32" else ():
        contexts.pop(name, None)
    opened, listed = builtins.open, os.listdir

    def without_proc(real: Any) -> Any:
        def call(path: Any, *more: Any, **settings: Any) -> Any:
            if not isinstance(path, int) and os.fspath(path).startswith(("/proc", "/sys")):
                raise FileNotFoundError(2, "No such file or directory", path)
            return real(path, *more, **settings)

        return call

    builtins.open, os.listdir = without_proc(opened), without_proc(listed)
    sys.platform = system


def run(fork: Callable[[], int], arguments: list[str], path: Path) -> int:
    """Exit code of one command, in a process that `fork` makes: the system that is played may have none."""
    from truemem_workbench.commands.__main__ import main  # chooses its modules by what the system has

    child = fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    for descriptor, ending in ((1, ".out"), (2, ".err")):
        os.dup2(os.open(path.with_suffix(ending), os.O_CREAT | os.O_WRONLY), descriptor)
    sys.argv = ["truemem", *arguments]
    main()
    sys.exit()


if __name__ == "__main__":
    forking = os.fork
    play(sys.argv[1])
    folder, commands = Path(sys.argv[2]), json.loads(sys.argv[3])
    print([run(forking, arguments, folder / str(number)) for number, arguments in enumerate(commands)])
