"""One answer about a function's memory: cause, holder, rate, what follows, and the command to type next. Pure.

Whatever prints something about memory prints `Finding.paragraph`, and no other sentence. `causes` makes it.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, Protocol

from ..support.document import known_members, rounded
from ..support.environment_ids import is_local
from ..support.own_modules import listing, modules_above
from ..support.platform_facts import MOST_MANAGED_MIB
from ..support.terminal import counted
from ..support.typed_command import Command, following


@dataclass(frozen=True, kw_only=True)
class Commands:
    """A command for each purpose. Empty: there is none."""

    again: str
    """Measures once more."""
    proof: str = ""
    """Proves a repair. Empty: `again` does."""
    longer: str = ""
    mixed: str = ""
    """Sends traffic that tells clocks of growth apart."""
    profile: str = ""
    """Command that has the function name the line where it runs."""
    classes: str = ""
    """The same of a JVM, which names classes."""
    lines: str = ""
    """Shows the lines that it has named."""
    explain: str = ""
    """Names the line here; of a web server, in which no tracer is, what it grows by."""
    heap: str = ""
    """Turns the heap's witness on."""
    repair: str = ""
    """Tries a repair that is a setting."""
    with_variable: str = ""
    """Ends with `--env`: a variable follows."""
    with_memory: str = ""
    """Ends with `--memory`: MB follow."""
    with_timeout: str = ""
    """Ends with `--timeout`: seconds follow."""
    with_event: str = ""
    """Sends an event of the user's own, where none was given."""
    events: str = ""
    """File of its events, which can be edited."""
    with_path: str = ""
    """Asks a web server for a path that has to be filled in."""
    install: str = ""
    """Installs a package for the function: its name follows, and a bracket where one is open."""
    requirements: str = ""
    """The file that lists Python's packages for the deployment."""
    above: Mapping[str, Path] = field(default_factory=dict)
    """The project's own modules in the folders above the function, by name, with their folder."""
    log: str = ""
    """Shows what a function says."""
    silent: str = ""
    """Shows why there is no record."""
    extensions: str = ""
    """Shows which extensions there are."""
    size: str = ""
    """What to do with a function whose memory is well."""
    sweep: str = ""
    """Measures it at several memory sizes."""

    def installs(self, package: str) -> str:
        """The command that installs this package for the function."""
        return f"{self.install} {package}{')' if self.install.startswith('(') else ''}"


def commands_deployed(function: str) -> Commands:
    """The commands for a function in AWS, by its name, which may be empty."""
    name = shlex.quote(function or "NAME")
    return Commands(
        again=f"truemem report {name} --since 24h",
        proof=f"truemem report {name} --since 1h",
        longer=f"truemem report {name} --since 7d",
        profile=f"truemem attach {name} --lines",
        classes=f"truemem attach {name} --lines --lines-java",
        lines=f"truemem lines {name}",
        explain=f"truemem events {name} --since 1h --output events.jsonl",
        heap=f"truemem attach {name} --heap",
        log=f"aws logs tail /aws/lambda/{name} --since 1h",
        silent=f"truemem doctor {name}",
        extensions=f"aws lambda get-function-configuration --function-name {name} --query Layers",
        size=f"truemem report {name} --since 7d --invocations-per-month 1000000",
        sweep=f"truemem size {name}",
    )


def commands_of(function: str, environment: str) -> Commands:
    """The commands for the function of this environment, whose lines were read. A line of the local Lambda does not say
    what was run: FILE:HANDLER stands for it."""
    if is_local(environment):
        unknown = Command("check", ("FILE:HANDLER",))  # nor with which events: check says of what it fails
        return replace(commands_local(unknown), log=str(unknown.with_option("--events", "FILE")))
    return commands_deployed(function)


def longer(command: Command) -> str:
    """The text of this check with more invocations: as many as it makes by itself where fewer were asked for, else
    2,000, or twice as many."""
    asked = max((int(value) for name, value in command.options if name in COUNTS and value), default=ASKED)
    free = command.without(*COUNTS)
    return str(free if asked < ASKED else free.with_option("--invocations", 2 * max(1000, asked)))


OF_BOTH = ("--http", "--event", "--events", "--memory", "--timeout", "--env", "--python", "--cmd")
"""Options that `truemem check` and `truemem soak` have."""
COUNTS, ASKED = ("--invocations", "--most"), 200
"""Options that say how many invocations, and how many there are without: at least, until it is decided."""
OF_SIZE = ("--event", "--events", "--timeout", "--env", "--python", "--cmd")
"""Options that `truemem size` has as well."""


def soaked(command: Command) -> str:
    """The text of a soak of what this check has measured."""
    return str(_kept(command, OF_BOTH).named("soak").with_option("--for", "10m"))


def _kept(command: Command, names: Sequence[str]) -> Command:
    return replace(command, options=tuple(each for each in command.options if each[0] in names))


def with_path(command: Command) -> str:
    """The text of this command, for a path of a web server that has to be filled in."""
    return str(command.without("--event", "--events").with_option("--event", "/a/path/that/there/is"))


class Code(Protocol):
    """What a function runs: its language and folder, the interpreter if it is in Python here, its image, and a command
    as typed after an edit."""

    @property
    def language(self) -> str | None: ...

    @property
    def python(self) -> Path | None: ...

    @property
    def image(self) -> object: ...

    @property
    def task_root(self) -> Path: ...

    def once_built(self, command: object) -> str: ...


def commands_local(
    command: Command,
    *,
    is_probed: bool = True,
    can_explain: bool = True,
    function: Code | None = None,
    shows_log: bool = True,
    is_web: bool = False,
) -> Commands:
    """The commands for a function here. `command`: the check that measured it. `is_probed`: without the probe the next
    run loads it. `can_explain`: it can be traced. `function`: what it runs. `shows_log`: false where its log is on the
    screen already. `is_web`: it is a web server."""
    install, requirements, above = "", "", {}
    if function is not None and function.python:
        install, above = f"{shlex.quote(str(function.python))} -m pip install", modules_above(function.task_root)
        listed = listing(function.task_root, "requirements.txt")
        requirements = os.path.relpath(listed) if listed else ""
    elif function is not None and function.language == "nodejs" and function.image is None:
        listed = listing(function.task_root, "package.json")
        folder = os.path.relpath(listed.parent if listed else function.task_root)
        install = "npm install" if folder == "." else f"(cd {shlex.quote(folder)} && npm install"
    once, empty = command.without("--events").named("local run"), ("--event", "{}")
    once = once if command.has("--event") else once.with_option("--event", "/" if is_web else "{}")
    is_own = command.has("--events") or (command.has("--event") and empty not in command.options)
    if is_command := command.has("--http"):  # check and soak alone run that
        once = command
    return Commands(
        again=str(command),
        proof="" if function is None else function.once_built(command),
        longer=longer(command),
        explain=soaked(command) if is_web else str(command.named("explain")) if can_explain else "",
        heap="" if is_probed else str(command),
        repair=str(command.with_option("--try-repair")),
        with_variable=f"{command} --env",
        with_memory=f"{command.without('--memory')} --memory",
        with_timeout=f"{command.without('--timeout')} --timeout",
        with_event="" if is_own else f"{command.without('--event')} --event @event.json",
        events="" if is_web else next((file or "" for name, file in command.options if name == "--events"), ""),
        with_path=with_path(command) if is_web else "",
        install=install,
        requirements=requirements,
        above=above,
        log=str(once) if shows_log else "",
        silent=str(once.with_option("--raw")),
        size=str(command.with_option("--write-baseline", "memory.json")),
        sweep=str(command if is_command else _kept(command, OF_SIZE).named("size")),
    )


Cause = Literal[
    "none", "leak", "hoarding", "cache", "collector", "native", "processes", "threads", "descriptors", "tmp",
    "extension", "page-cache", "failing", "undecided",
]  # fmt: skip
GROWS: tuple[Cause, ...] = (
    "leak", "native", "hoarding", "collector", "processes", "threads", "descriptors", "tmp", "extension",
)  # fmt: skip
"""Causes that end an environment if they go on. Hoarding does only where it grows, and a collector where garbage alone
fills the memory (`Finding.grows`)."""

COUNTED: tuple[Cause, ...] = ("processes", "threads", "descriptors", "tmp")
"""What is counted, and has a limit of its own."""

AFTER_REPAIR = "after the repair"
AFTER_MORE = "after more invocations"

TOO_FEW = "too-few-invocations"
"""Section of docs/patterns.md for a finding that only lacks invocations."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """The one answer. Sizes in KiB; None: not known, or not so."""

    cause: Cause
    title: str
    """The answer in a sentence."""
    holder: str = ""
    """Who holds what grows: `function`, the name of an extension, what in the function."""
    per_invocation_kib: float | None = None
    low_kib: float | None = None
    high_kib: float | None = None
    """Growth per invocation of what the cause is known from, and its 95 % interval."""
    share: float | None = None
    """Which part of the growth of RSS that explains; None where RSS does not grow."""
    hidden: bool = False
    """True if it grows, and RSS does not show it."""
    invocations_left: int | None = None
    then: str = ""
    """What happens when they are over."""
    confidence: float | None = None
    """Share of the findings like this one that were right (benchmarks/results/drift.md)."""
    line: Mapping[str, object] = field(default_factory=dict)
    """The line of code that keeps it, if the function was profiled: members as in `growthLines`."""
    line_sentence: str = ""
    """The line of code that keeps it, as a sentence (`judge.growth_lines`)."""
    by_event: Mapping[str, float] = field(default_factory=dict)
    """The kinds of events of which something is kept, if others keep nothing: KiB, or a number, in each invocation."""
    evidence: Sequence[str] = ()
    """Figures, each a short text."""
    repair: str = ""
    setting: Mapping[str, str] = field(default_factory=dict)
    """Variables that are the repair, if it is a setting."""
    next: str = ""
    """The command to type next."""
    next_when: str = ""
    """What must be before that command has a use: AFTER_REPAIR, AFTER_MORE. Empty: nothing."""
    grows: bool = False
    """True if it ends the environment when it goes on."""
    settled: bool = True
    """False if more invocations can still change the answer."""
    pattern: str = ""
    """Section of docs/patterns.md."""

    def said_after(self, typed: str) -> Finding:
        """The same in the answer to a command that was `typed`: once more it tells nothing before there is more."""
        return replace(self, next_when=AFTER_MORE) if self.next == typed and not self.next_when else self

    @property
    def following(self) -> tuple[str, str]:
        """The command to type next, and what must be done before."""
        return self.next, self.next_when

    def paragraph(self) -> str:
        """All of it, in one paragraph that ends with the command."""
        parts = [self.title]
        if self.line_sentence:
            parts.append(self.line_sentence)
        if self.evidence:
            figures = "; ".join(self.evidence)
            parts.append(f"{figures[0].upper()}{figures[1:]}.")
        if self.invocations_left is not None and self.then:
            left = counted(self.invocations_left, "invocation")
            parts.append(f"{f'In about {left}' if self.invocations_left else 'Now'} {self.then}.")
        if self.repair:
            parts.append(self.repair)
        if self.next:
            parts.append(following(self.next, self.next_when))
        return " ".join(parts)

    def document(self) -> dict[str, object]:
        """The members for `--json`. What is not known is left out."""
        members = {
            "cause": self.cause,
            "holder": self.holder or None,
            "perInvocationKiB": rounded(self.per_invocation_kib, 3),
            "low": rounded(self.low_kib, 3),
            "high": rounded(self.high_kib, 3),
            "share": rounded(self.share, 3),
            "hidden": self.hidden,
            "invocationsLeft": self.invocations_left,
            "confidence": self.confidence,
            "line": dict(self.line) or None,
            "byEvent": {kind: rounded(kept, 3) for kind, kept in self.by_event.items()} or None,
            "evidence": list(self.evidence),
            "repair": self.repair or None,
            "setting": dict(self.setting) or None,
            "next": self.next or None,
            "nextWhen": self.next_when or None,
            "pattern": self.pattern or None,
            "sentence": self.paragraph(),
        }
        return known_members(members)


def unmeasured(title: str, commands: Commands) -> Finding:
    """The answer where nothing was measured: `title` says why."""
    return Finding(
        cause="undecided", title=title, next=commands.silent or commands.again, settled=False, pattern=TOO_FEW
    )


def most_urgent(found: Sequence[tuple[Finding, int]]) -> Finding:
    """The finding to act on, of those on the environments of one function, each with its number of invocations.

    A failing environment speaks for the function only if most of all invocations are in such ones: one that failed in
    its only invocation says little. Of equal ones that of most invocations. Needs at least one finding."""
    failing = sum(count for finding, count in found if finding.cause == "failing")
    is_failing = 2 * failing >= sum(count for _, count in found)
    asked = [each for each in found if is_failing or each[0].cause != "failing"]
    return min(asked, key=lambda each: (*urgency(each[0]), -each[1]))[0]


def urgency(
    finding: Finding, killed: int = 0, peak_mib: float | None = None, limit_mib: float | None = None
) -> tuple[float, ...]:
    """Sort key of an environment: first those of which invocations were `killed` for memory, then what ends one, the
    sooner the earlier, then what is failing, undecided, and well; then by how near the peak is to the memory size."""
    left = float("inf") if finding.invocations_left is None else finding.invocations_left
    order = {"failing": 1, "undecided": 4 if finding.pattern == TOO_FEW else 2}
    need = 0 if finding.grows else order.get(finding.cause, 3)
    full = (peak_mib or 0.0) / (limit_mib or MOST_MANAGED_MIB)
    return (not killed, need, left, -(finding.per_invocation_kib or 0.0), -full)
