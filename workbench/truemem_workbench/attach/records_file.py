"""The file that keeps what each function was before it was attached: `truemem detach` reads it.

It has only the layers and the variables that truemem changed, no other variable of the function.
"""

from __future__ import annotations

import fcntl
import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from ..support.bad_input import BadInput
from .change import Change, from_document

FORMAT = 1


def default_path() -> Path:
    """In $XDG_STATE_HOME, else ~/.local/state (XDG base directory specification)."""
    folder = os.environ.get("XDG_STATE_HOME")
    return (Path(folder) if folder else Path.home() / ".local" / "state") / "truemem" / "attached.json"


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
            return {arn: from_document(each) for arn, each in functions.items()}
        except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
            raise BadInput(f"{self.path}: this is no file of truemem attach. Try --state FILE") from error

    def keep(self, arn: str, change: Change) -> None:
        """Record the change of this function. Raises BadInput if it cannot be written."""
        self._update(lambda records: {**records, arn: change})

    def forget(self, arn: str) -> None:
        """Remove the record of this function. Raises BadInput if it cannot be written."""
        self._update(lambda records: {each: change for each, change in records.items() if each != arn})

    def _update(self, change: Callable[[dict[str, Change]], dict[str, Change]]) -> None:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            # Two commands at the same time: each adds to what the other has written.
            with self.path.with_name(f"{self.path.name}.lock").open("w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                self._write(change(self.read()))
        except OSError as error:
            raise BadInput(f"{self.path}: {error.strerror or error}. Try --state FILE") from error

    def _write(self, records: dict[str, Change]) -> None:
        document = {"format": FORMAT, "functions": {arn: change.document() for arn, change in records.items()}}
        with tempfile.NamedTemporaryFile("w", dir=self.path.parent, prefix=f".{self.path.name}.", delete=False) as file:
            file.write(json.dumps(document, indent=1) + "\n")
            file.flush()
            os.fsync(file.fileno())
        Path(file.name).replace(self.path)
