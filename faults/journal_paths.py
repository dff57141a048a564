"""Puts something else at the journal's path, or makes the path unusable. The function can write to /tmp as well."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from truemem.support.files import path_in

from faults.environment import FaultEnvironment, tally
from faults.result import NotHere, Row, counted
from faults.subject import Subject

INVOCATIONS = 10
CONTENT = b"not to be touched" * 1000


@contextmanager
def symlink(path: Path) -> Iterator[None]:
    """A symbolic link to another file."""
    target = path.with_name("target")
    target.write_bytes(CONTENT)
    path.symlink_to(target)
    yield
    _same(target)


@contextmanager
def hard_link(path: Path) -> Iterator[None]:
    """A hard link to another file."""
    target = path.with_name("target")
    target.write_bytes(CONTENT)
    target.chmod(0o600)
    path.hardlink_to(target)
    yield
    _same(target)


@contextmanager
def folder(path: Path) -> Iterator[None]:
    """A folder with a file in it."""
    path.mkdir()
    (path / "inside").write_bytes(CONTENT)
    yield
    _same(path / "inside")


@contextmanager
def pipe(path: Path) -> Iterator[None]:
    """A named pipe. A reader that opens it would wait for a writer."""
    os.mkfifo(path)
    yield


@contextmanager
def another_users(path: Path) -> Iterator[None]:
    """A file of another user."""
    path.write_bytes(CONTENT)
    try:
        os.chown(path, 12345, 12345)
    except PermissionError:
        raise NotHere("only root can make files of another user") from None
    yield


@contextmanager
def garbage(path: Path) -> Iterator[None]:
    """A private file with garbage of any size."""
    path.write_bytes(os.urandom(20_000))
    path.chmod(0o600)
    yield


@contextmanager
def garbage_of_its_size(path: Path) -> Iterator[None]:
    """A private file of the journal's size with garbage."""
    from truemem.journal import SIZE

    line = b'W[1,{"PeakRSS":1e999},{"requestId":[],"invocation":"x"}]\n'
    text = b'[null,{},-1]\n7 7 7 {"requestId":\n' + line * SIZE
    path.write_bytes(text[:SIZE])
    path.chmod(0o600)
    yield


@contextmanager
def full(path: Path) -> Iterator[None]:
    """A /tmp without space."""
    with _mounted(path.parent, "size=16k"):
        with (path.parent / "filling").open("wb", buffering=0) as filling:
            try:
                while True:
                    filling.write(b"x" * 4096)
            except OSError:
                pass
        yield


@contextmanager
def read_only(path: Path) -> Iterator[None]:
    """A read-only /tmp."""
    with _mounted(path.parent, "ro"):
        yield


PATHS = {
    "the journal's path is a link": symlink,
    "the journal's path is a hard link": hard_link,
    "the journal's path is a folder": folder,
    "the journal's path is a named pipe": pipe,
    "the journal is another user's file": another_users,
    "the journal holds garbage": garbage,
    "the journal holds garbage of the right size": garbage_of_its_size,
    "/tmp is full": full,
    "/tmp is read-only": read_only,
}


def in_the_way(subject: Subject, title: str, advance: Callable[[], None]) -> Row:
    """One environment. Raises NotHere."""
    with FaultEnvironment(subject) as environment:
        variables = {key.encode(): value.encode() for key, value in environment.variables.items()}
        path = Path(path_in(variables, subject.name))
        broken = []
        try:
            with PATHS[title](path):
                environment.begin()
                for _ in range(INVOCATIONS):
                    environment.invoke()
                if environment.shut_down() != 0:
                    broken.append(f"{title}: no clean end")
        except AssertionError as error:
            broken.append(f"{title}: {error}")
        advance()
        printed = tally(environment.served, environment.records())
        missing = sum(not count for count in printed.values())
        if missing:
            broken.append(f"{title}: {counted(missing, 'line')} missing")
        strangers = len(environment.lines) - printed.total()
        if strangers:
            broken.append(f"{title}: {counted(strangers, 'line')} of unknown invocations")
        said = "; the log says that there is no journal" if path.name in environment.said() else ""
        return Row(
            title,
            counted(len(environment.served), "invocation"),
            "nothing" if not environment.wrong else "wrong answers",
            (counted(missing, "line") if missing else "nothing") + said,
            broken,
        )


def _same(target: Path) -> None:
    assert target.read_bytes() == CONTENT, f"{target.name} was written to"


@contextmanager
def _mounted(at: Path, options: str) -> Iterator[None]:
    """Mount a file system there."""
    try:
        made = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", options, "truemem", str(at)], capture_output=True, text=True, check=False
        )
    except OSError as error:
        raise NotHere(f"mount: {error}") from None
    if made.returncode:
        raise NotHere(made.stderr.strip())
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(at)], check=True)
