"""Control groups for the environment, v1 or v2, if permitted here; they are removed even if this process is killed."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

_SCRIPT = """
while read -r path; do
  test "$path" = done && exit 0
  set -- "$@" "$path"
done
for path do
  test -e "$path/freezer.state" && echo THAWED >"$path/freezer.state"
  test -e "$path/cgroup.freeze" && echo 0 >"$path/cgroup.freeze"
done
for attempt in 1 2 3 4 5 6 7 8 9 10; do
  left=
  for path do
    test -d "$path" || continue
    if test -e "$path/cgroup.procs"; then
      while read -r pid; do kill -9 "$pid"; done <"$path/cgroup.procs"
      rmdir "$path" || left=yes
    else
      rm -rf "$path"
    fi
  done
  test "$left" || exit 0
  sleep 0.1
done
"""


class CleanupWatchdog:
    """Ends the environment if this process is killed and cannot do it itself.

    The death of its parent does not wake a frozen process in a cgroup. So a small shell waits at a pipe. If the pipe
    closes without the word `done`, the shell thaws, kills and removes everything on its list.
    """

    def __init__(self) -> None:
        self._shell = subprocess.Popen(
            ["/bin/sh", "-c", _SCRIPT],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            start_new_session=True,  # Ctrl-C at a terminal is not for it
        )

    def watch(self, path: Path) -> None:
        """Add a cgroup's directory or a working folder to the list."""
        self._write(str(path))

    def dismiss(self) -> None:
        """End the shell: all is cleaned up already."""
        self._write("done")
        assert self._shell.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._shell.stdin.close()
        self._shell.wait()

    def _write(self, line: str) -> None:
        assert self._shell.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it was killed: without it the cleanup depends on us alone
            self._shell.stdin.write(line.encode() + b"\n")
            self._shell.stdin.flush()


CHUNK_BYTES = 16_384


def read_file(path: str) -> bytes:
    """Read a file of the kernel's. Several are read in each invocation, and Path.read_bytes is four times slower."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        text = b""
        while more := os.read(descriptor, CHUNK_BYTES):
            text += more
    finally:
        os.close(descriptor)
    return text


Controller = Literal["memory", "cpu", "freezer"]


class NotPermitted(Exception):
    """No control group can be made here. The message says why."""


class Cgroup:
    """One directory of a cgroup hierarchy that we fill and remove."""

    def __init__(self, path: Path, version: Literal[1, 2]) -> None:
        self.path = path
        self.version = version

    def read(self, name: str) -> str:
        return read_file(f"{self.path}/{name}").decode()

    def write(self, name: str, value: str) -> None:
        descriptor = os.open(f"{self.path}/{name}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC)
        try:
            os.write(descriptor, value.encode())
        finally:
            os.close(descriptor)

    def add(self, pid: int) -> None:
        self.write("cgroup.procs", str(pid))

    def pids(self) -> list[int]:
        try:
            return [int(line) for line in self.read("cgroup.procs").split()]
        except OSError:
            return []

    def field(self, name: str, key: str) -> int:
        """Read a value from a file of `key value` lines; 0 if the key is not there."""
        for line in self.read(name).splitlines():
            found, _, value = line.partition(" ")
            if found == key:
                return int(value)
        return 0

    def kill(self) -> None:
        """Send SIGKILL to every process that is in the group now."""
        for pid in self.pids():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)

    def remove(self, within_s: float = 2.0) -> bool:
        """Remove the directory within this time. A killed process stays in the group until it has ended."""
        end = time.monotonic() + within_s
        while True:
            try:
                self.path.rmdir()
            except FileNotFoundError:
                return True
            except OSError:
                if time.monotonic() > end:
                    return False
                self.kill()
                time.sleep(0.005)
            else:
                return True


def create(controller: Controller, name: str, *, only_version: Literal[1, 2] | None = None) -> Cgroup:
    """Make a new group for a controller, as near to our own group as possible. Raises NotPermitted.

    It moves a process into the first group as a test: permission to make a directory is not permission to move
    processes.
    """
    why = f"no {controller} controller is mounted"
    for version, parent in _parents(controller):
        if only_version not in (None, version):
            continue
        try:
            return _try(controller, parent, version, name)
        except OSError as error:
            why = f"{error.strerror} in {parent}"
    raise NotPermitted(why)


def enable(controller: Controller, group: Cgroup) -> None:
    """Give a group of v2 the files of one more controller. Raises NotPermitted."""
    parent = group.path.parent
    try:
        _pass_on(controller, parent)
    except OSError as error:
        raise NotPermitted(f"{error.strerror} in {parent}") from None


def _pass_on(controller: Controller, parent: Path) -> None:
    if controller not in _words(parent / "cgroup.subtree_control"):
        # Refused (EBUSY) where processes live: a group of v2 has either processes or children with controllers.
        (parent / "cgroup.subtree_control").write_text(f"+{controller}")


def _try(controller: Controller, parent: Path, version: Literal[1, 2], name: str) -> Cgroup:
    if version == 2 and controller != "freezer":  # v2 freezes without a controller
        _pass_on(controller, parent)
    group = Cgroup(parent / name, version)
    group.path.mkdir()
    try:
        if parent not in _PROVEN:
            _prove(group)
            _PROVEN.add(parent)
    except OSError:
        group.remove()
        raise
    return group


_PROVEN: set[Path] = set()
"""Directories in whose children processes can be moved. Each environment would start a program to find out."""


def _prove(group: Cgroup) -> None:
    with subprocess.Popen(["/bin/sh", "-c", "read -r _"], stdin=subprocess.PIPE) as process:
        try:
            group.add(process.pid)
        finally:
            process.kill()


def _parents(controller: Controller) -> Iterator[tuple[Literal[1, 2], Path]]:
    """Our own group's directory for the controller, then its ancestors up to the root of the hierarchy."""
    for version, mount, own in _hierarchies(controller):
        folder = own
        while True:
            if folder.is_dir():
                yield version, folder
            if folder == mount or mount not in folder.parents:
                break
            folder = folder.parent


def _hierarchies(controller: Controller) -> Iterator[tuple[Literal[1, 2], Path, Path]]:
    """Each hierarchy that has the controller, v1 first: (version, mount point, our own group)."""
    memberships = dict(_memberships())
    for version, controllers, root, mount in sorted(_mounts(), key=lambda found: found[0]):
        if version == 1 and controller not in controllers:
            continue
        if version == 2 and controller not in ("freezer", *_words(mount / "cgroup.controllers")):
            continue
        own = memberships.get("" if version == 2 else controller, "/")
        # Inside a container the mount may show only a part of the hierarchy: its root is cut off.
        inside = own.removeprefix(root.rstrip("/")) if own.startswith(root) else "/"
        yield version, mount, mount / inside.lstrip("/")


def _memberships() -> Iterator[tuple[str, str]]:
    """Parse /proc/self/cgroup into (controller, path). The line of v2 has no controller."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            yield controller, path


def _mounts() -> Iterator[tuple[Literal[1, 2], set[str], str, Path]]:
    """Parse /proc/self/mountinfo into (version, controllers of v1, root within the hierarchy, mount point)."""
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        left, _, right = line.partition(" - ")
        kind, _, options = right.split(" ", 2)
        fields = left.split(" ")
        if kind == "cgroup":
            yield 1, set(options.split(" ")[-1].split(",")), fields[3], Path(fields[4])
        elif kind == "cgroup2":
            yield 2, set(), fields[3], Path(fields[4])


def _words(path: Path) -> list[str]:
    try:
        return path.read_text().split()
    except OSError:
        return []
