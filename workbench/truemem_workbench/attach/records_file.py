"""The file that keeps what each function was before it was attached: `truemem detach` reads it.

It has only what truemem changed: layers, variables, the memory size. No other variable of the function is in it.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from ..aws.clients import FUNCTION_ARN
from ..support.bad_input import BadInput
from .change import Change, from_document, joined_record

FORMAT = 1
Records = dict[str, Change]


def default_path(name: str = "attached.json") -> Path:
    """Place of the file of records: in $XDG_STATE_HOME, else ~/.local/state (XDG base directory specification)."""
    folder = os.environ.get("XDG_STATE_HOME")
    return (Path(folder) if folder else Path.home() / ".local" / "state") / "truemem" / name


class RecordsFile:
    """Changes by function ARN. Each write is complete before the call returns, and only its user can read it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> dict[str, Change]:
        """All records. Raises BadInput if the file is not one of ours."""
        try:
            text = self.path.read_text()
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            raise BadInput(f"{self.path}: {error}. Try --state FILE") from error
        try:
            document = json.loads(text)
            functions = {FORMAT: document["functions"]}[document["format"]]
            return {_arn(name): from_document(each) for name, each in functions.items()}
        except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
            raise BadInput(f"{self.path}: this is no record of truemem. Try --state FILE") from error

    def check(self) -> None:
        """Raises BadInput if the file cannot be written."""
        self._update(lambda records: records)

    def add(self, arn: str, change: Change) -> tuple[Change | None, Change]:
        """Record a change that is about to be made. Returns the record of before, if there is one, and the new one.

        Raises BadInput if it cannot be written.
        """

        def added(records: Records) -> Records:
            earlier = records.get(arn)
            return {**records, arn: joined_record(earlier, change) if earlier else change}

        before, after = self._update(added)
        return before.get(arn), after[arn]

    def put_back(self, arn: str, record: Change, earlier: Change | None = None) -> None:
        """Replace the record by the earlier one, or remove it; unless another command has written one since.

        Raises BadInput if it cannot be written.
        """

        def back(records: Records) -> Records:
            if records.get(arn) != record:
                return records
            rest = {each: change for each, change in records.items() if each != arn}
            return {**rest, arn: earlier} if earlier else rest

        self._update(back)

    def _update(self, change: Callable[[Records], Records]) -> tuple[Records, Records]:
        """Write the changed records. Returns those of before, and the new ones."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            # Two commands at the same time: each adds to what the other has written.
            flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
            lock = os.open(self.path.with_name(f"{self.path.name}.lock"), flags, 0o600)
            try:
                _wait_for(lock)
                before = self.read()
                after = change(before)
                self._write(after)
                return before, after
            finally:
                os.close(lock)
        except OSError as error:
            raise BadInput(f"{self.path}: {error.strerror or error}. Try --state FILE") from error

    def _write(self, records: Records) -> None:
        document = {"format": FORMAT, "functions": {arn: change.document() for arn, change in records.items()}}
        path = self.path.resolve()  # a link stays one
        with tempfile.NamedTemporaryFile("w", dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
            file.write(json.dumps(document, indent=1) + "\n")
            file.flush()
            os.fsync(file.fileno())
        Path(file.name).replace(path)


def _wait_for(lock: int) -> None:
    """Take the lock, which ends with the descriptor."""
    try:
        import fcntl
    except ImportError:
        import msvcrt  # Windows. It asks again each second, and gives up after ten with an OSError

        msvcrt.locking(lock, msvcrt.LK_LOCK, 1)  # type: ignore[attr-defined]
    else:
        fcntl.flock(lock, fcntl.LOCK_EX)


def _arn(name: str) -> str:
    """Raises ValueError if it is none of a function."""
    if not FUNCTION_ARN.fullmatch(name):
        raise ValueError(name)
    return name
