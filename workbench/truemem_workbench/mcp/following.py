"""What follows an answer, as an assistant can do it: the call of a tool, or a command that a person types. Pure.

The commands say what to type next in a shell. A tool has the name of its command, and arguments with the names of the
options: what no argument of the tool can say stays a person's command.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from typing import Any, NamedTuple

from ..judge.finding import AFTER_REPAIR
from .arguments import Schema, types_of

ON_LOGS = ("doctor", "report", "lines")
ON_THIS_MACHINE = ("check", "explain", "size", "run")
PLACES = {"events": "function", "triage": "functions", "attach": "functions", "detach": "functions"}
"""Which argument the words without an option are, where they are neither a log nor a handler."""
KEPT = ("event", "events", "env", "timeout", "python", "extensions")
"""Arguments that a call on this machine takes over from the one before, if its command has none of them."""
RENAMED = {("size", "memory"): "sizes", ("lines", "version"): "versions"}
LEFT_OUT = {("doctor", "follow"): "once it was invoked twice", ("doctor", "invoke"): "", ("run", "raw"): ""}
"""Options that a tool needs no argument for, and when to call it for that."""
CHANGED = "once the function or its events have changed"
"""When the same call on this machine tells more. Only a finding knows of a repair."""
MORE = "if you want more"
HOLE = re.compile(r"NAME|VALUE|FILE|@.*|.*:HANDLER|BUILT/.*", re.DOTALL)
"""What a person has to fill in."""
MOST_ARGUMENT = 2_000
"""Characters that an argument of the next call has: a larger one, such as an event, is not told again."""
COMMAND = re.compile(r"\btruemem (?:local )?[a-z-]++(?!:)(?: (?:'[^']*'|[^\s,;)'\"]+))*")
OPTION = re.compile(r"--([a-z][a-z-]*)")
BUILD = re.compile(r"((?!truemem )[^{]*?) && (?=truemem )")
"""What is typed before a command of truemem, after an edit."""


class Call(NamedTuple):
    """The call of a tool."""

    tool: str
    arguments: Mapping[str, Any]


class Following(NamedTuple):
    """What to do next. Empty: nothing is known."""

    call: Call | None = None
    when: str = ""
    """After what the call makes sense; empty: now. With `typed`: after that, in words."""
    missing: tuple[str, ...] = ()
    """Arguments of the call that only the user knows; `env.NAME` is one variable."""
    typed: str = ""
    """A command that a person must type, as no tool can: before the call, if there is one."""
    done: str = ""
    """Why nothing is left to do; then the call, or `typed`, is for who wants more."""

    def at_the_end(self, done: str) -> Following:
        """The same where nothing is left to do, for this reason."""
        call, missing = (None, ()) if self.typed else (self.call, self.missing)
        return Following(call, MORE if call else "", missing, self.typed, done)

    def lines(self, schemas: Mapping[str, Schema]) -> list[str]:
        """In words, for the end of an answer."""
        made = [f"Done: {self.done}"] if self.done else []
        if self.typed:
            made.append(f"{'Later, a person can' if self.done else 'A person must'} type: {self.typed}")
        if self.call is not None:
            when = f", {self.when}" if self.when else ""
            given = json.dumps(self.call.arguments, ensure_ascii=False)
            line = f"Next{when}: call {self.call.tool} with {given}"
            properties = schemas[self.call.tool]["properties"]
            texts = {each: properties[each.partition(".")[0]]["description"].rstrip(".") for each in self.missing}
            asked = [f"{each} ({text})" for each, text in texts.items()]
            made.append(f"{line}, and give {' and '.join(asked)}" if asked else line)
        return made

    def members(self) -> dict[str, Any]:
        """For the document: `done`, `nextCall`, `nextWhen`, `nextMissing`, `nextTyped`. Empty: left out."""
        call = None if self.call is None else {"tool": self.call.tool, "arguments": dict(self.call.arguments)}
        members = {
            "done": self.done,
            "nextCall": call,
            "nextWhen": self.when,
            "nextMissing": [*self.missing],
            "nextTyped": self.typed,
        }
        return {name: value for name, value in members.items() if value}


def following(command: str, asked: Call, schemas: Mapping[str, Schema], when: str = "") -> Following:
    """The command as a step. `asked`: the call that was answered. `when`: see `Following`."""
    if build := BUILD.match(command):
        made = following(command[build.end() :], asked, schemas, when)
        return made._replace(typed=made.typed or build[1])
    try:
        read = _call_of(shlex.split(command), asked, schemas)
    except ValueError:  # no closing quote: it is a sentence
        read = None
    newer = " and a newer log is saved in place of the old one" if asked.arguments.get("files") else ""
    if read is None:
        return Following(asked, when or f"once that is done{newer}", typed=command)
    call, missing, later = read
    is_here = asked.tool in ON_THIS_MACHINE and call.tool in ON_THIS_MACHINE
    if is_here and "target" not in missing:
        takes, given = schemas[call.tool]["properties"], {*call.arguments, *missing}
        kept = {name: asked.arguments[name] for name in KEPT if name in asked.arguments and name in takes}
        call = Call(call.tool, {**call.arguments, **({} if given & {*KEPT} else kept)})
    is_same = call == asked or (newer and call == (asked.tool, {**asked.arguments, **_function(call)}))
    if newer and (call.tool == "events" or (is_same and when == AFTER_REPAIR)):  # there may be no account, only a log
        return Following(Call("check", {}), "", ("target", "events"))
    if missing or not is_same:
        return Following(call, when or later, missing)
    return Following(call, when or (CHANGED if is_here else f"once it has run longer{newer}"))


def _function(call: Call) -> dict[str, Any]:
    return {name: call.arguments[name] for name in ("function",) if name in call.arguments}


def command_in(text: str) -> str:
    """The first command of truemem in a sentence, such as an error's; empty if there is none."""
    found = (each[0].rstrip(".:") for each in COMMAND.finditer(text))
    return next((each for each in found if not each.endswith(" --help")), "")


def option_names(text: str, tool: str, arguments: Mapping[str, Any]) -> str:
    """The text of a command with the names of the tool's arguments in place of options, but in commands to type."""

    def named(found: re.Match[str]) -> str:
        name = found[1].replace("-", "_")
        name = RENAMED.get((tool, name), name)
        return name if name in arguments else found[0]

    parts, end = [], 0
    for found in COMMAND.finditer(text):
        parts += [OPTION.sub(named, text[end : found.start()]), found[0]]
        end = found.end()
    return "".join([*parts, OPTION.sub(named, text[end:])])


def _call_of(words: list[str], asked: Call, schemas: Mapping[str, Schema]) -> tuple[Call, tuple[str, ...], str] | None:
    """The call, its missing arguments, and when to call. None if no tool can do it."""
    if words[:1] != ["truemem"] or len(words) < 2:
        return None
    tool, rest = ("run", words[3:]) if words[1:3] == ["local", "run"] else (words[1], words[2:])
    if tool not in schemas:
        return None
    properties, made, places, missing, when = (
        schemas[tool]["properties"],
        dict[str, Any](),
        list[str](),
        list[str](),
        "",
    )
    while rest:
        word = rest.pop(0)
        if word == "--":
            places += rest
            break
        if not word.startswith("--"):
            places.append(word)
            continue
        option, has_value, value = word[2:].partition("=")
        option = option.replace("-", "_")
        if (tool, option) in LEFT_OUT:
            when = when or LEFT_OUT[tool, option]
            continue
        name = RENAMED.get((tool, option), option)
        if name not in properties:
            return None
        types = [each["type"] for each in types_of(properties[name])]
        if types == ["boolean"]:
            made[name] = True
            continue
        if not has_value:
            if not rest:
                return None
            value = rest.pop(0)
        key, _, text = value.partition("=") if name == "env" else ("", "", value)
        if HOLE.fullmatch(text) and key not in asked.arguments.get("env", {}):
            missing.append(f"{name}.{key}" if key else name)
        elif not _put(made, name, value, types):
            return None
    if not _place(made, missing, places, tool, asked):
        return None
    required = [each for each in schemas[tool].get("required", ()) if each not in made]
    in_order = {name: made[name] for name in properties if name in made}
    return Call(tool, in_order), tuple(dict.fromkeys([*required, *missing])), when


def _put(made: dict[str, Any], name: str, value: str, types: list[str]) -> bool:
    """Put the text of an option into the arguments. False if the argument cannot have it."""
    try:
        if name == "event":
            made[name] = json.loads(value)
            return isinstance(made[name], dict | list)
        if "object" in types:
            key, _, text = value.partition("=")
            made.setdefault(name, {})[key] = text
        elif "array" in types:
            texts = value.split(",") if name == "sizes" else [value]
            made.setdefault(name, []).extend(int(each) if name == "sizes" else each for each in texts)
        else:
            made[name] = int(value) if "integer" in types else float(value) if "number" in types else value
    except ValueError:
        return False
    return True


def _place(made: dict[str, Any], missing: list[str], places: list[str], tool: str, asked: Call) -> bool:
    """Put the words that are behind no option into the arguments. False if the tool cannot have them."""
    if tool in ON_THIS_MACHINE:
        if len(places) != 1 or not re.search(r"[/:.]", places[0]):  # a web server's command, a function in AWS
            return False
        if HOLE.fullmatch(places[0]) and places[0] != asked.arguments.get("target"):
            missing.append("target")
        else:
            made["target"] = places[0]
    elif tool in ON_LOGS:
        files = asked.arguments.get("files")
        if files:
            made["files"] = files
            made.pop("since", None)
        named = [each for each in places if not HOLE.fullmatch(each) and each not in (files or ())]
        if len(named) > 1:
            return False
        if named:
            made["function"] = named[0]
        elif not files:
            missing.append("function")
    else:
        names = [each for each in places if not HOLE.fullmatch(each)]
        if not names:
            missing.append(PLACES[tool])
        else:
            made[PLACES[tool]] = names if PLACES[tool] == "functions" else names[0]
    return True
