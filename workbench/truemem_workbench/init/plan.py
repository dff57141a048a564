"""What init writes and runs for the functions that it has found. It looks at files, and writes none."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..support.bad_input import BadInput
from ..support.terminal import some
from ..support.typed_command import Command
from ..support.untrusted_text import parsed
from . import repository, sample_events, search
from .found import Build, Found, builds_of
from .pipeline import Gate
from .repository import File
from .tree import text_of

EVENTS = "memory-events"
"""The folder of the events, beside the template or the sources."""
OWN_EVENTS = "events"
"""Where SAM's templates, and many projects, have theirs."""
MOST_OWN = 20


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What is to be written and run."""

    found: Sequence[Found]
    checks: Sequence[tuple[Found, Command]]
    """The gate's command of each."""
    files: Sequence[File]
    by_hand: Sequence[str]
    """What only the reader can do, as sentences."""
    notes: Sequence[str]
    is_in_git: bool

    @property
    def builds(self) -> list[Build]:
        """The builds that must run here."""
        return [each for each in builds_of(self.found) if each.is_needed]


def plan(path: str, name: str | None, ci: str | None, install: str | None) -> Plan:
    """The plan for what is found at this path. `name`: of one of its functions. `ci`: `github`, `gitlab`, `none`, or as
    the repository shows. `install`: what pip installs in CI. Raises BadInput."""
    project = search.find(path)
    found = [each for each in project.found if name in (None, each.name)]
    if not found:
        names = some([each.name for each in project.found], 8)
        raise BadInput(f"--function {name}: found are {names}. Try --function {project.found[0].name}")
    is_only = len(project.found) == 1
    events = [_events(project.root, each, is_only=is_only) for each in found]
    checks = [(each, each.check(file.path)) for each, file in zip(found, events, strict=True)]
    root = repository.git_root(Path())
    within = Path.cwd().resolve().relative_to(root.resolve())
    parts = (within / project.root).parts
    source = install or repository.installed_from(root)
    slug = re.sub(r"[^\w-]+", "-", "-".join(("memory", *parts)))
    gate = Gate(checks=checks, install=source, folder=within, name=slug)
    kinds = [ci] if ci else repository.cis(root)
    made = [repository.files_of(kind, gate, root) for kind in kinds if kind != "none"]
    by_hand = [said for _, said in made if said]
    if made and not source:
        by_hand.append(repository.to_fill_in(kinds))
    return Plan(
        found=found,
        checks=checks,
        files=[*events, *(file for file, _ in made)],
        by_hand=by_hand,
        notes=project.notes,
        is_in_git=(root / ".git").exists(),
    )


def _events(root: Path, found: Found, *, is_only: bool) -> File:
    """The file of a function's events: the project's own, if they are of what invokes it; else samples of that; else
    `{}`."""
    name = re.sub(r"[^\w.-]+", "-", found.name)
    own = [path for path in sorted((root / OWN_EVENTS).glob("*.json")) if is_only or _is_of(path, found)][:MOST_OWN]
    told = [event for path in own if isinstance(event := parsed(text_of(path)), dict)]
    fitting = [event for event in told if sample_events.fits(event, found.sources)]
    events = sample_events.varied(fitting) if fitting else sample_events.events_for(found.sources)
    return File(root / EVENTS / f"{name}.jsonl", sample_events.as_lines(events))


def _is_of(path: Path, found: Found) -> bool:
    """The file's name has the function's in it: event-get-by-id.json is of getByIdFunction."""
    plain = re.compile(r"[\W_]|events?|function|lambda|handler")
    file, function = (plain.sub("", each.lower()) for each in (path.stem, found.name))
    return bool(file) and (file in function or (bool(function) and function in file))
