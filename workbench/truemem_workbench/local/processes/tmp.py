"""A /tmp of its own for an environment, as on Lambda: its processes see a folder of the environment in its place."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from .cgroups import NotPermitted
from .process import User

TMP = Path("/tmp")
OWN_PREFIX = ".truemem-"
"""Begin of the names of the sidecar's and the probe's own files in /tmp."""

_PATH = re.compile(r"(?<![\w.-])/tmp/[^\s:;,\"']+")
"""A path inside a word that is not the end of another path."""

# What the run needs of this machine's /tmp stays visible: it is bound before the folder hides it.
_COVER = """
eval "$1" || exit 1
shift
for name do mount --rbind "/tmp/$name" "$0/$name" || exit 1; done
mount --rbind "$0" /tmp && echo covered && read -r _
"""


def elsewhere() -> str:
    """Where to make folders that processes with a /tmp of their own use as well: not in /tmp, which begins empty for
    them. (Functions remove all that they find there.)"""
    usual = tempfile.gettempdir()
    return "/var/tmp" if usual == str(TMP) and os.access("/var/tmp", os.W_OK | os.X_OK) else usual


class Tmp:
    """What the processes of one environment have as /tmp."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        """Where its files are, for all others."""
        self._bound: set[str] = set()
        """Names in this machine's /tmp that are in it as well."""
        self._namespaces: dict[str, int] = {}
        """Descriptors of `mnt`, and `user` of an ordinary user. They live as long as these, or a process in them."""

    @property
    def path(self) -> str:
        """The path of /tmp for the environment's processes."""
        return str(TMP if self._namespaces else self.folder)

    def cover(self, names: Iterable[str], before: str = ":") -> None:
        """Lay the folder over /tmp, for the processes that are started with `entering`. These entries of this machine's
        /tmp stay in it, whole. `before`: what a shell does in the same namespace first. Raises NotPermitted and
        OSError."""
        if shutil.which("nsenter") is None or shutil.which("unshare") is None:
            raise NotPermitted("there is no unshare or nsenter, of util-linux")
        if TMP.resolve() != TMP:
            raise NotPermitted("/tmp is a link")
        for name in names:
            place = self.folder / name
            place.mkdir(exist_ok=True) if (TMP / name).is_dir() else place.touch()
            self._bound.add(name)
        own_user = [] if os.geteuid() == 0 else ["--user", "--map-current-user"]
        # A shell without root's id keeps the right to mount in its namespace only by --keep-caps (util-linux 2.36).
        command = ["unshare", *own_user, "--keep-caps", "--mount", "--propagation", "private"]
        with subprocess.Popen(
            [*command, "/bin/sh", "-c", _COVER, str(self.folder), before, *sorted(self._bound)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd="/",
        ) as shell:
            assert shell.stdout is not None
            assert shell.stderr is not None
            if not shell.stdout.readline():
                raise NotPermitted(shell.stderr.readline().strip() or "the shell has ended")
            for kind in ("user", "mnt") if own_user else ("mnt",):
                self._namespaces[kind] = os.open(f"/proc/{shell.pid}/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC)

    @property
    def namespaces(self) -> dict[str, str]:
        """Files of the namespaces of its processes, by their kind, in the order in which they are entered."""
        return {kind: f"/proc/{os.getpid()}/fd/{number}" for kind, number in self._namespaces.items()}

    def entering(self, user: User | None) -> list[str]:
        """Begin of a command that runs as this user, with this /tmp. Empty where it is this machine's: then it is still
        to become the user."""
        if not self._namespaces:
            return []
        options = {"user": "--user", "mnt": "--mount"}
        own = [f"{options[kind]}={path}" for kind, path in self.namespaces.items()]
        identity = [f"--setgid={user.gid}", f"--setuid={user.uid}"] if user else ["--preserve-credentials"]
        return [shutil.which("nsenter") or "nsenter", *own, *identity, "--"]

    def clear(self) -> None:
        """Remove all that processes have left."""
        for entry in self.folder.iterdir():
            if entry.name in self._bound:
                continue
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry, ignore_errors=True)
            else:
                entry.unlink(missing_ok=True)

    def used_kib(self) -> float:
        """KiB that files and folders in it take of a disk, but for our own (`.truemem-`)."""
        blocks = 0
        for path, folders, files in os.walk(self.folder):
            if path == str(self.folder):
                folders[:] = [name for name in folders if name not in self._bound]
            for name in (*folders, *files):
                with suppress(OSError):
                    if not name.startswith(OWN_PREFIX):
                        blocks += os.lstat(f"{path}/{name}").st_blocks
        return blocks / 2

    def close(self) -> None:
        """No process is started in it any more: it ends with the last one."""
        while self._namespaces:
            os.close(self._namespaces.popitem()[1])


def holding(needs: Iterable[Path]) -> set[str]:
    """Names of the entries of this machine's /tmp in which these files and folders are, as they are given and where
    links lead. Raises NotPermitted if one is /tmp itself."""
    found = {name for path in needs for name in _entries(path)}
    if "" in found:
        raise NotPermitted("the function lies in /tmp itself")
    return found


def named_in(words: Iterable[str]) -> set[str]:
    """Names of the entries of this machine's /tmp that arguments and values of variables have paths in, without what is
    not there now, and /tmp itself."""
    paths = (Path(text) for word in words for text in (word, *_PATH.findall(word)) if text.startswith("/"))
    return {name for path in paths for name in _entries(path)} - {""}


def _entries(path: Path) -> set[str]:
    """Names in /tmp, "" for /tmp itself."""
    found: set[str] = set()
    with suppress(OSError, ValueError, RuntimeError):  # too long for a path, or links in a circle: it is not there
        for place in (Path(os.path.normpath(path.absolute())), path.resolve()):
            if place == TMP:
                found.add("")
            elif place.is_relative_to(TMP) and (entry := TMP / place.relative_to(TMP).parts[0]).exists():
                found.add(entry.name)
    return found
