"""The root of an image's processes: its files, read-only as on Lambda, with /tmp, /proc, /dev and /sys over them."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from . import enter
from .image import Image

DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
"""No /dev/shm: Lambda has none."""
LINKS = {"fd": "fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2"}
"""In /dev, by what they lead to in /proc/self."""
OF_MACHINE = ("/etc/resolv.conf", "/etc/hosts")


class Root:
    """The root of one environment, in its folder. `mounts` makes it in a mount namespace, and goes with that."""

    def __init__(self, image: Image, folder: Path, tmp: Path, needs: Iterable[Path]) -> None:
        """`tmp`: its /tmp. `needs`: what it has of this machine at the same places: folders as they are, and the
        folders of files read-only."""
        self.image = image
        self._folder, self._tmp = folder, tmp
        self._place = folder / "root"
        given = [*needs]
        self._writable = _outermost(each for each in given if each.is_dir())
        self._readable = _outermost(each.parent for each in given if not each.is_dir())

    def mounts(self) -> str:
        """Commands of a shell. What is laid over the image needs places to be laid on, and those are in a folder of
        ours: an overlay has both, and nothing of the image is changed."""
        places = self._folder / "places"
        files, shared = [path for path in OF_MACHINE if Path(path).exists()], (*self._writable, *self._readable)
        for path in ("/proc", "/sys", "/dev", "/tmp", *map(str, shared)):
            in_tmp = path.startswith("/tmp/")  # a folder of ours lies there as well
            _make(self._tmp if in_tmp else places, path.removeprefix("/tmp") if in_tmp else path)
        for path in files:
            _make(places, path.rpartition("/")[0])
            (places / path.lstrip("/")).touch()
        self._place.mkdir()
        (self._folder / "image").symlink_to(self.image.root)  # an option of mount takes no name with a comma
        at = shlex.quote(str(self._place))
        steps = [
            f"cd {shlex.quote(str(self._folder))}",
            "mount -t overlay overlay -o lowerdir=places:image root",
            f"mount --rbind /proc {at}/proc",
            f"mount --rbind /sys {at}/sys",
            f"mount -t tmpfs -o mode=755 tmpfs {at}/dev",
            *(f"touch {at}/dev/{name} && mount --bind /dev/{name} {at}/dev/{name}" for name in DEVICES),
            *(f"ln -s /proc/self/{target} {at}/dev/{name}" for name, target in LINKS.items()),
            f"mount --bind {shlex.quote(str(self._tmp))} {at}/tmp",
        ]
        steps += [self._bind(str(path), read_only=path in self._readable) for path in (*files, *shared)]
        return " && ".join([*steps, "cd /"])

    def _bind(self, path: str, *, read_only: bool) -> str:
        both = f"{shlex.quote(path)} {shlex.quote(f'{self._place}{path}')}"
        # A mount's flags may be locked: then an ordinary user cannot add to them.
        first = f"mount --bind -o ro {both} 2>/dev/null || " if read_only else ""
        return f"{{ {first}mount --rbind {both}; }}"

    def holds(self, path: Path) -> bool:
        """Is this file of the image?"""
        return path.is_relative_to(self.image.root)

    def entering(
        self,
        command: Sequence[str],
        *,
        folder: str,
        variables: Mapping[str, str],
        user: tuple[int, int] | None,
        namespaces: Sequence[str],
        exact: Path | None = None,
    ) -> list[str]:
        """The command that starts this one in the root, as this user. `exact`: the program that it goes through first,
        on this machine."""
        asked: dict[str, Any] = {
            "namespaces": namespaces,
            "root": str(self._place),
            "folder": folder,
            "user": user,
            "variables": dict(variables),
            "command": command,
        }
        through = [str(exact)] if exact is not None else []
        return [*through, sys.executable, "-IS", enter.__file__, json.dumps(asked)]


def _make(folder: Path, path: str) -> None:
    """Make the folders of this path below `folder`. All may enter them, whatever the umask here is."""
    for part in ("", *path.strip("/").split("/")):
        folder /= part
        if not folder.exists():
            folder.mkdir()
            folder.chmod(0o755)


def _outermost(folders: Iterable[Path]) -> list[Path]:
    """Without those that lie in another one."""
    every = {each.absolute() for each in folders}
    return sorted(each for each in every if not every & {*each.parents})
