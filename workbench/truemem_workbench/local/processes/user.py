"""The user that the processes run as."""

from __future__ import annotations

import os
import pwd
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

UID, GID = 993, 990
"""Ids of the function and its extensions in Lambda (`sbx_user1051`)."""

# The shell's own test, as the other user: path modes, ACLs and mounts all count.
_CAN_READ = 'for path; do test -r "$path" || { echo "$path"; exit 1; }; done'


@dataclass(frozen=True)
class User:
    uid: int
    gid: int


def ordinary() -> User:
    """Lambda's ids, where that user has a name on this machine; else those of `nobody`: a JVM keeps its counters in a
    file that has the user's name, and without one there is none."""
    with suppress(KeyError):
        pwd.getpwuid(UID)
        return User(UID, GID)
    with suppress(KeyError):
        nobody = pwd.getpwnam("nobody")
        return User(nobody.pw_uid, nobody.pw_gid)
    return User(UID, GID)


def choose(asked: Literal["auto", "current"], needs: Sequence[Path]) -> tuple[User | None, str | None]:
    """Choose the user to switch to, or None for the current one, and a notice if Lambda does it in another way.

    That user must be able to read the interpreter, the code and the extensions (`needs`).
    """
    if os.geteuid() != 0:
        return None, None
    if asked == "current":
        return None, "processes run as root, as asked: in Lambda they are an ordinary user"
    user = ordinary()
    hidden = _first_unreadable(needs, user)
    if hidden is None:
        return user, None
    return (
        None,
        f"processes run as root: uid {user.uid} cannot read {hidden}. Move it, or open its folders (chmod o+rx)",
    )


def _first_unreadable(paths: Sequence[Path], user: User) -> str | None:
    shell = ["/bin/sh", "-c", _CAN_READ, "sh", *map(str, paths)]
    done = subprocess.run(
        shell,
        user=user.uid,
        group=user.gid,
        extra_groups=[],
        cwd="/",
        env={},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.strip() if done.returncode else None
