"""A function that was found, and what it takes to run it. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from ..support.typed_command import Command

Language = Literal["python", "nodejs", "go", "java", "other"]


@dataclass(frozen=True)
class Source:
    """What invokes a function: a kind of `sample_events.SAMPLES`, and what the template says of it."""

    kind: str
    details: Mapping[str, str] = field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class Build:
    """A command of the project's own that makes what runs."""

    command: str
    folder: Path = Path()
    is_needed: bool = True
    """It must run here: what it makes is not there, or older than its sources. In CI it always runs."""
    tool: str = ""
    """The program that it needs, or a file such as ./mvnw."""
    again: bool = False
    """It makes what runs of the sources: after each edit it must run again."""

    def __str__(self) -> str:
        return f"{self.command} (in {self.folder})" if self.folder.parts else self.command


@dataclass(frozen=True, kw_only=True)
class Found:
    """A function of the project."""

    name: str
    target: str
    """What is typed after `truemem check`."""
    language: Language
    version: str = ""
    """The version of its runtime, such as `3.12` or `22`, if something says it."""
    options: tuple[tuple[str, str], ...] = ()
    """Options of the gate that a template says, where the target is not in it."""
    sources: tuple[Source, ...] = ()
    builds: tuple[Build, ...] = ()
    folder: Path = Path()
    """The folder of its code."""

    @property
    def rebuild(self) -> str:
        """What is typed before a command after an edit. Empty if the source runs as it is."""
        builds = ((each, shlex.quote(str(each.folder))) for each in self.builds if each.again)
        return "".join(f"(cd {at} && {it.command}) && " if at != "." else f"{it.command} && " for it, at in builds)

    def check(self, events: Path) -> Command:
        """The gate's command for it, with these events."""
        return Command("check", (self.target,), self.options).with_option("--events", events.as_posix())


def with_own_names(found: Sequence[Found]) -> list[Found]:
    """The same, no two with one name: a file of events is named after each."""
    taken: set[str] = set()
    made = []
    for each in found:
        name, number = each.name, 1
        while name.lower() in taken:  # a Mac's files differ by more than case
            number += 1
            name = f"{each.name}-{number}"
        taken.add(name.lower())
        made.append(replace(each, name=name))
    return made


def builds_of(found: Sequence[Found]) -> list[Build]:
    """What is built for all of them, each once, in order. One that any of them needs is needed."""
    made: dict[tuple[str, Path], Build] = {}
    for build in (build for each in found for build in each.builds):
        key = build.command, build.folder
        made[key] = replace(build, is_needed=build.is_needed or (key in made and made[key].is_needed))
    return [*made.values()]
