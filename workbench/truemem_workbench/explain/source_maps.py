"""Where places of built JavaScript are in the source that it was built from, by its source maps."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from ..local.configuration.layer import layer_folder
from ..printed.growth import GrowthLine, GrowthProfile
from ..support.untrusted_text import loads

PROGRAM = Path(__file__).with_name("source_maps.mjs")
PATIENCE_S = 60
FRAME = re.compile(r"(?P<file>.+?):(?P<line>\d+)(?::(?P<column>\d+))? .*")
"""A frame of a printed line: `index.js:1:510 s`."""


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


def profiles_in_source(profiles: Iterable[GrowthProfile], folder: Path) -> list[GrowthProfile]:
    """Profiles of Node.js that functions have printed, with the places in their source. A place without a map stays as
    it was printed. `folder` has the files as they were built and their maps, or the maps alone."""
    known = list(profiles)
    lines = [line for each in known for line in each.lines]
    spots = [_spot_of(line) for line in lines] + [spot for line in lines for spot in map(_spot_in, line.stack) if spot]
    mapped = {spot: found for spot, found in original(spots, folder).items() if found.file != spot.file}

    def frame(text: str) -> str:
        spot = _spot_in(text)
        found = mapped.get(spot) if spot else None
        function = "(minified)" if spot and spot.column else text.rpartition(" ")[2]
        return f"{_shown(found)}:{found.line} {function}" if found else text

    def placed(line: GrowthLine) -> GrowthLine:
        made = line._replace(stack=tuple(map(frame, line.stack)))
        found = mapped.get(_spot_of(line))
        function = "(minified)" if line.column else line.function
        return made._replace(file=_shown(found), line=found.line, column=0, function=function) if found else made

    return [each._replace(lines=tuple(map(placed, each.lines))) if each.runtime == "nodejs" else each for each in known]


def _spot_of(line: GrowthLine) -> Spot:
    return Spot(line.file, line.line, line.column)


def _spot_in(frame: str) -> Spot | None:
    found = FRAME.fullmatch(frame)
    return Spot(found["file"], int(found["line"]), int(found["column"] or 0)) if found else None


def _shown(spot: Spot) -> str:
    """Relative to the present folder, if it is below it."""
    return spot.file.removeprefix(f"{Path.cwd()}/")
