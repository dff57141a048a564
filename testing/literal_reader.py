"""A reader who takes an assistant's answers literally: calls what an answer names, changes what it names, nothing else.

Ten incidents, each with its truth: what the program really does, known from the public reports of its case
(tests/cases), and the repair that their threads found. The reader starts from a function's log or its handler, and goes
on until an answer says that nothing is left to do. A wrong cause, a wrong line, no next step, or a repair that does not
pass the gate raises Lost.
"""

from __future__ import annotations

import gzip
import re
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from truemem_workbench.judge.finding import AFTER_REPAIR

from .cases import Case, Ready, cases
from .incidents import FOLDER

MOST_CALLS = 8
LOG = "orders.log"
"""Where a person saves the function's log."""
HANDLER = "def handler(event: object, context: object) -> int:\n"
PYTHON = "PYTHON"
"""Stands for the interpreter that has the program's packages."""
JAVA = {"JAVA_FLAGS": "-XX:+UseSerialGC -Xmx256m"}


class Lost(Exception):
    """The answers did not lead to the repair. The text says at which step, and why."""


class Edit(NamedTuple):
    """A repair of a file in the program's folder."""

    file: str
    old: str
    """Its text before, once in the file."""
    new: str
    build: str = ""
    """The shell command that then builds it."""


@dataclass(frozen=True)
class Story:
    """An incident."""

    case: str
    """Whose program it is, in tests/cases."""
    truth: str
    """What the program really does, and what repairs it."""
    tool: str
    """The first call."""
    arguments: Mapping[str, Any]
    causes: Sequence[str]
    """Right answers until the repair."""
    line: str = ""
    """Text of the line that keeps it; empty where no line is the cause."""
    edit: Edit | None = None
    setting: Mapping[str, str] = field(default_factory=dict)
    """Variables that are the repair: the answer must name just these."""
    holder: str = ""
    """What the finding must name as the holder."""
    least_mib: int = 0
    """Memory size that is the repair: the last call must have as much, with the user's events."""
    gives: Mapping[str, Any] = field(default_factory=dict)
    """What the user answers, if an answer asks for an argument."""
    logs: Sequence[str] = ()
    """Recorded logs of tests/mcp/incidents: the first is there, each time a person saves a newer one it is the next.
    NAME:20 has its first 20 lines."""
    persons: Sequence[str] = ()
    """How the commands begin that a person must type, in their order."""
    nightly: bool = True
    """False: it is told in each run of the tests."""

    @property
    def of(self) -> Case:
        return next(each for each in cases() if each.name == self.case)


STORIES = (
    Story(
        "lru_cache_behind_load",
        "functools.cache without bound keeps 24 KiB of each request, in room that loading a model has freed; a bound"
        " ends it",
        "doctor", {"files": [LOG]}, ("leak",), "@functools.cache",
        Edit("app.py", "@functools.cache\n", "@functools.lru_cache(maxsize=100)\n"),
        logs=("hidden", "cache"), persons=("truemem attach orders --lines",), nightly=False,
    ),
    Story(
        "process_listeners",
        "each invocation adds a listener to process, which keeps its request; without it nothing grows",
        "report", {"files": [LOG]}, ("leak",), 'process.on("unhandledRejection"',
        Edit("index.mjs", '  process.on("unhandledRejection", (reason) => console.error(reason, request));\n', ""),
        logs=("listeners:20", "listeners"),
    ),
    Story(
        "c_peaks_of_threads",
        "nothing is kept: each arena of malloc holds the room of its thread's longest list; variables give it back",
        "check", {"target": "./bootstrap", "max_peak": 45}, ("hoarding",),
        setting={"MALLOC_ARENA_MAX": "2", "MALLOC_MMAP_THRESHOLD_": "32768"},
    ),
    Story(
        "page_cache_of_600", "a cache with a bound fills, and stops: nothing is to be repaired",
        "check", {"target": "app.py:handler"}, ("cache", "none"), nightly=False,
    ),
    Story(
        "one_large_request",
        "one request in a hundred needs 150 MiB at once, the function has 128: more memory; nothing leaks",
        "report", {"files": [LOG]}, ("none", "undecided"),
        gives={"target": "app.py:handler", "events": "events.jsonl"}, logs=("killed",), least_mib=192,
    ),
    Story(
        "telemetry_threads",
        "a client in each invocation starts a thread that waits for ever; one client for all was the fix",
        "check", {"target": "app.py:handler"}, ("threads",), "threading.Thread(target=self.send",
        Edit("app.py", f"{HANDLER}    client = Client()\n", f"client = Client()\n\n\n{HANDLER}"),
    ),
    Story(
        "sockets_left_open",
        "each invocation leaves a socket open, until EMFILE; closing it ends it",
        "report", {"files": [LOG]}, ("descriptors",),
        edit=Edit("app.py", "    open_responses.append(connection.sock.dup())  # kept, as a pool keeps it\n", ""),
        gives={"target": "app.py:handler", "events": None}, logs=("sockets",),
    ),
    Story(
        "extension_keeps_payloads",
        "an extension keeps 500 KiB of each invocation, the function nothing; a newer extension ends it",
        "check", {"target": "app.py:handler", "extensions": "extensions"}, ("extension",),
        edit=Edit("extensions/payloads", '    payloads.append(b"\\1" * 500 * 1024)\n', ""), holder="payloads",
    ),
    Story(
        "all_fail",
        "it expects records of a queue, and its event has none: memory is not the question",
        "check", {"target": "app.py:handler"}, ("failing",), 'return [record["body"] for record in event["Records"]]',
        gives={"event": {"Records": [{"body": "paid"}]}}, nightly=False,
    ),
    Story(
        "java_thread_context", "the thread's log context gets a key for each request, and is never cleared",
        "check", {"target": "./bootstrap", "memory": 1024, "env": JAVA}, ("leak",), "CONTEXT.get().put(",
        Edit("App.java", "request);\n", "request);\n        CONTEXT.get().clear();\n", "javac -d . *.java"),
    ),
)  # fmt: skip
"""Ten: three begin at a log in the form of an account, and end on this machine."""


class Told(NamedTuple):
    """The answer of a tool."""

    text: str
    document: Mapping[str, Any]
    is_error: bool

    @property
    def next(self) -> str:
        """The tool to call, the command that a person types before that, or `done`."""
        call = self.document.get("nextCall", {}).get("tool", "")
        return "done" if "done" in self.document else str(self.document.get("nextTyped") or call)


@dataclass(frozen=True)
class Read:
    """How a story went."""

    calls: Sequence[str]
    """The tools that were called, in their order."""
    named: str
    """What the answers named: cause, and line or variable."""
    typed: Sequence[str]
    """What a person had to type, do or say."""
    done: str


def read(story: Story, program: Ready, ask: Callable[[str, Mapping[str, Any]], Told]) -> Read:
    """Follow the answers to the end. `ask`: a server whose folder is that of the program. Raises Lost."""
    return _Reader(story, program.folder, program.python, ask).read()


class _Reader:
    def __init__(self, story: Story, folder: Path, python: Path, ask: Callable[[str, Mapping[str, Any]], Told]) -> None:
        self.story, self.folder, self.ask, self.python = story, folder, ask, python
        self.calls: list[str] = []
        self.typed: list[str] = []
        self.causes: list[str] = []
        self.lines: list[str] = []
        self.given: dict[str, Any] = {}
        self.repaired = False
        self.logs = list(story.logs)
        self.persons = list(story.persons)

    def read(self) -> Read:
        if self.logs:
            self._save_log()
        own: dict[str, Any] = {
            name: str(self.python) if each == PYTHON else each for name, each in self.story.arguments.items()
        }
        tool, arguments = self.story.tool, own
        while len(self.calls) < MOST_CALLS:
            self.calls.append(tool)
            answer = self.ask(tool, arguments)
            if answer.is_error:
                raise self._lost(answer, "it is an error")
            self._judge(answer)
            if done := answer.document.get("done"):
                if arguments.get("memory", 0) < self.story.least_mib:
                    raise self._lost(answer, f"it needs {self.story.least_mib} MiB")
                if "events" in self.given and arguments.get("events") != self.given["events"]:
                    raise self._lost(answer, "the user's events were not sent")
                return self._end(answer, done)
            self._act(answer)
            call = answer.document.get("nextCall") or {}
            if not call:
                raise self._lost(answer, "it has no next call")
            tool, arguments = call["tool"], {**call["arguments"], **self._given(answer)}
            self._set(answer, arguments)
        raise Lost(f"{self.story.case}: {', '.join(self.calls)}, and no end")

    def _judge(self, answer: Told) -> None:
        """The cause, the holder and the line that it names must be the true ones."""
        for finding in findings_of(answer):
            cause = finding["cause"]
            if self.repaired:
                continue
            if cause not in (*self.story.causes, "undecided"):
                raise self._lost(answer, f"the cause is {self.story.causes[0]}, and not {cause}")
            if cause in self.story.causes and self.story.holder not in finding.get("holder", ""):
                raise self._lost(answer, f"{self.story.holder} holds it")
            self.causes.append(cause)
        if self.story.line and not self.repaired:
            for place in named(answer):
                if place != self._place():
                    raise self._lost(answer, f"the line is {self._place()}, and not {place}")
                self.lines.append(place)

    def _act(self, answer: Told) -> None:
        """What comes before the next call: what a person must do, or the repair."""
        when, typed = answer.document.get("nextWhen", ""), answer.document.get("nextTyped", "")
        if typed:
            if not self.persons or not typed.startswith(self.persons[0]):
                raise self._lost(answer, f"no person can type {typed}")
            self.persons.pop(0)
            self.typed.append(typed)
        if "newer log" in when:
            if not self.logs:
                raise self._lost(answer, "there is no newer log")
            self.typed.append("save a newer log")
            self._save_log()
        if when == AFTER_REPAIR:
            self._repair(answer)

    def _repair(self, answer: Told) -> None:
        edit = self.story.edit
        if self.repaired or edit is None:
            raise self._lost(answer, "the repair does not help" if self.repaired else "there is no such repair")
        if self.story.line and not self.lines:
            raise self._lost(answer, "no line is named to repair")
        path = self.folder / edit.file
        before, *after = path.read_text().split(edit.old)
        (rest,) = after
        path.write_text(f"{before}{edit.new}{rest}")
        if edit.build:
            subprocess.run(edit.build, shell=True, cwd=self.folder, check=True)
        self.repaired = True

    def _set(self, answer: Told, arguments: Mapping[str, Any]) -> None:
        """A variable of the next call, beside those of the first, is the repair: it must be the true one."""
        first = self.story.arguments.get("env", {})
        added = {name: value for name, value in arguments.get("env", {}).items() if name not in first}
        if added:
            if added != self.story.setting:
                raise self._lost(answer, f"the variables are {self.story.setting}, and not {added}")
            self.repaired = True

    def _given(self, answer: Told) -> dict[str, Any]:
        """What the user says for the arguments that are missing."""
        given = {}
        for name in answer.document.get("nextMissing", ()):
            if name not in self.story.gives:
                raise self._lost(answer, f"no user knows {name}")
            if self.story.gives[name] is not None:
                given[name] = self.story.gives[name]
        self.given.update(given)
        self.repaired = self.repaired or "event" in given  # of a function that fails for its event
        return given

    def _end(self, answer: Told, done: str) -> Read:
        needs = bool(self.story.edit or self.story.setting)
        if needs and not self.repaired:
            raise self._lost(answer, "it ends without a repair")
        if not set(self.causes) & set(self.story.causes):
            raise self._lost(answer, f"it ends, and has never said {self.story.causes[0]}")
        variables = [f"{name}={value}" for name, value in self.story.setting.items()]
        cause = next(each for each in self.causes if each in self.story.causes)
        said = [f"say {' and '.join(self.given)}"] if self.given else []
        return Read(self.calls, ", ".join([cause, *self.lines[:1], *variables]), [*self.typed, *said], done)

    def _place(self) -> str:
        """FILE:LINE of the story's line."""
        for path in self.folder.iterdir():
            if path.suffix in SOURCES:
                for number, text in enumerate(path.read_text().splitlines(), 1):
                    if self.story.line in text:
                        return f"{path.name}:{number}"
        raise Lost(f"{self.story.case} has no line {self.story.line}")

    def _save_log(self) -> None:
        name, _, most = self.logs.pop(0).partition(":")
        lines = gzip.decompress((FOLDER / f"{name}.log.gz").read_bytes()).decode().splitlines(keepends=True)
        (self.folder / LOG).write_text("".join(lines[: int(most) if most else None]))

    def _lost(self, answer: Told, why: str) -> Lost:
        return Lost(f"{self.story.case}, after {' > '.join(self.calls)}: {why}\n{answer.text}")


SOURCES = (".py", ".mjs", ".java")
PLACE = re.compile(r"([\w-]+\.(?:py|mjs|java)):(\d+)")


def findings_of(answer: Told) -> list[Mapping[str, Any]]:
    """Those of a function, or of each function of a report."""
    of_functions = [each["finding"] for each in answer.document.get("functions", ())]
    return [each for each in (answer.document.get("finding"), *of_functions) if each]


def named(answer: Told) -> list[str]:
    """The line that each part of an answer names first, as FILE:LINE."""
    document = answer.document
    findings = findings_of(answer)
    parts: list[Any] = [document.get("explanation", {}).get("lines", [])[:1]]
    parts += [each["lines"][:1] for each in document.get("versions", ())]
    parts += [[each["line"]] for each in findings if each.get("line")]
    places = [f"{Path(line['file']).name}:{line['line']}" for part in parts for line in part if line.get("line")]
    said = [PLACE.search(text) for each in findings for text in each.get("evidence", ())]
    return [*places, *(f"{each[1]}:{each[2]}" for each in said if each)]
