"""Where places of built JavaScript are in the source that it was built from, by its source maps."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from ..local.configuration.layer import layer_folder
from ..support.untrusted_text import loads

PROGRAM = Path(__file__).with_name("source_maps.mjs")
PATIENCE_S = 60


class Spot(NamedTuple):
    """A place of code in JavaScript."""

    file: str
    line: int
    column: int = 0
    """From 1; 0 if it is not known, or if the line alone tells the place."""
    function: str = ""

    @property
    def is_librarys(self) -> bool:
        """Is it code of a package of npm?"""
        return "node_modules/" in self.file


def original(spots: Iterable[Spot], folder: Path | None = None) -> Mapping[Spot, Spot]:
    """For each spot that of the source, by the map inline or beside the file. One without a map stays as it is, with a
    column if its line is minified. Without Node.js on the PATH nothing is mapped.

    `folder` is the one that relative paths begin in: the present one if it is None.
    """
    known = sorted(set(spots))
    node, layer = shutil.which("node"), layer_folder()
    as_it_is = {each: each._replace(column=0) for each in known}
    if not known or node is None or layer is None:
        return as_it_is
    asked = json.dumps({"folder": str(folder or Path.cwd()), "places": known})
    command = [node, str(PROGRAM), str(layer / "truemem" / "maps.cjs")]
    try:
        done = subprocess.run(command, input=asked, capture_output=True, text=True, check=True, timeout=PATIENCE_S)
        found = loads(done.stdout)
        return {each: Spot(str(file), int(line), int(column), str(function))
                for each, (file, line, column, function) in zip(known, found, strict=True)}  # fmt: skip
    except (OSError, subprocess.SubprocessError, ValueError, TypeError):
        return as_it_is
