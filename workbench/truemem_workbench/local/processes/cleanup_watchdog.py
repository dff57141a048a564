"""Ends the environment if this process is killed and cannot do it itself.

The death of its parent does not wake a frozen process in a cgroup: after a `kill -9` it would stay for ever. So a small
shell waits at a pipe. If the pipe closes without the word `done`, the shell thaws, kills and removes everything on its
list.
"""

from __future__ import annotations

import contextlib
import subprocess
from pathlib import Path

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
        self._tell(str(path))

    def dismiss(self) -> None:
        """End the shell: all is cleaned up already."""
        self._tell("done")
        assert self._shell.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._shell.stdin.close()
        self._shell.wait()

    def _tell(self, line: str) -> None:
        assert self._shell.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it was killed: without it the cleanup depends on us alone
            self._shell.stdin.write(line.encode() + b"\n")
            self._shell.stdin.flush()
