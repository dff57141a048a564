"""Asks the functions of one architecture. Each question has an outcome with evidence, as in function/steps.py.

An outcome is `{"ok": true, "value": ...}`, or `{"ok": false, "error": ...}`, with `errno` where the kernel refused.
"""

from __future__ import annotations

import base64
import json
import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

Outcome = dict[str, Any]
Invoke = Callable[[dict[str, Any]], dict[str, Any]]
"""From an event to the answer of Lambda's Invoke API. May raise botocore's errors."""

MIB = 200
"""Size of the files that are read, mapped or written at a time: far above what the function itself holds."""
MARKS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("at the start", {"do": "nothing"}),
    ("after files of the runtime were read", {"do": "code", "mib": MIB}),
    ("after that, nothing done", {"do": "nothing"}),
    ("after these files were mapped", {"do": "map", "mib": MIB}),
    ("after a file was written to /tmp", {"do": "write", "mib": MIB}),
    ("after it was read", {"do": "read", "mib": MIB}),
)
"""In this order, in one environment: its mark never falls."""
INVOCATIONS = 50
"""Invocations that are compared for the order of release."""
IDLE_S = 3.0

_MARK = re.compile(r"REPORT RequestId: (\S+).*?Max Memory Used: (\d+) MB", re.DOTALL)
_SIDECAR = re.compile(r"truemem INFO (method=.*)")


class Failed(Exception):
    """The function has failed. The message is what it said."""


@dataclass
class Conversation:
    """The answers of one function, and what its log said."""

    invoke: Invoke
    tail: str = ""
    """The ends of the log of all invocations."""
    environments: set[tuple[str, float]] = field(default_factory=set)
    """The environments that have answered. Only within one can marks be compared."""

    def ask(self, event: dict[str, Any]) -> dict[str, Any]:
        """The function's answer, with `maxMemoryUsedMiB` if REPORT was there. Raises Failed, and botocore's errors."""
        result = self.invoke(event)
        payload = json.loads(result["Payload"].read() or b"null")
        tail = base64.b64decode(result.get("LogResult", "")).decode(errors="replace")
        self.tail += tail
        if "FunctionError" in result or not isinstance(payload, dict):
            said = payload.get("errorMessage") if isinstance(payload, dict) else None
            raise Failed(f"at {json.dumps(event)}: {said or payload}")
        if "logStream" in payload:
            self.environments.add((payload.pop("logStream"), payload.pop("born")))
        mark = next((int(mib) for request, mib in _MARK.findall(tail) if request == payload.get("requestId")), None)
        return {**payload, **({"maxMemoryUsedMiB": mark} if mark else {})}


def outcome(question: Callable[[], Any]) -> Outcome:
    """Answer a question. It never raises: an error is the outcome."""
    try:
        return {"ok": True, "value": question()}
    except Exception as error:  # a refusal of AWS, a function that has died, an answer of another form
        return refusal(error)


def refusal(error: object) -> Outcome:
    kind = "" if isinstance(error, Failed | str) else f"{type(error).__name__}: "
    return {"ok": False, "error": f"{kind}{' '.join(str(error).split())}"}


def measure(invoke: Invoke) -> dict[str, Outcome]:
    """All questions to the function `measure`, one after the other. IDLE_S seconds of them are a pause."""
    conversation = Conversation(invoke)
    found = _environment(conversation)
    found["mark"] = outcome(lambda: _marks(conversation))
    found["order of release"] = outcome(lambda: _order(conversation))
    found["freeze"] = outcome(lambda: _freeze(conversation))
    found["one environment"] = outcome(lambda: _alone(conversation.environments))
    found["sidecar"] = outcome(lambda: _first(_SIDECAR, conversation.tail))
    return found


def environment(invoke: Invoke) -> dict[str, Outcome]:
    """What one environment permits, of a kind such as an image: each step, and what the sidecar says there."""
    conversation = Conversation(invoke)
    return {**_environment(conversation), "sidecar": outcome(lambda: _first(_SIDECAR, conversation.tail))}


def _environment(conversation: Conversation) -> dict[str, Outcome]:
    asked = outcome(lambda: conversation.ask({"do": "environment"})["steps"])
    steps: dict[str, Outcome] = asked["value"] if asked["ok"] else {"environment": asked}
    return steps


def wrapped(invoke: Invoke) -> dict[str, Any]:
    """Start a function through the exec wrapper: what it answers, if it can, and the end of its log."""
    conversation = Conversation(invoke)
    return {"answer": outcome(lambda: conversation.ask({})), "tail": conversation.tail}


def filtered(invoke: Invoke) -> dict[str, Any]:
    """Make the function with the log filter print. The second invocation makes the sidecar's line of the first."""
    conversation = Conversation(invoke)
    return outcome(lambda: [conversation.ask({"do": "lines"}) for _ in range(2)])


def _marks(conversation: Conversation) -> dict[str, dict[str, Any]]:
    """Max Memory Used after each question, or why there is none. Raises Failed if there is none at all."""
    asked = {when: outcome(lambda event=event: _mark(conversation.ask(event))) for when, event in MARKS}  # type: ignore[misc]
    if not any(each["ok"] for each in asked.values()):
        raise Failed(next(iter(asked.values()))["error"])
    return {when: each["value"] if each["ok"] else {"error": each["error"]} for when, each in asked.items()}


def _mark(answer: dict[str, Any]) -> dict[str, Any]:
    """Max Memory Used of the invocation beside what the function held, MiB."""
    rss = answer["rss"].get("value", {})
    made = {"maxMemoryUsedMiB": answer.get("maxMemoryUsedMiB")}
    made |= {"rssMiB": _mib(rss.get("VmRSS")), "rssOfFilesMiB": _mib(rss.get("RssFile"))}
    made["movedMiB"] = answer["bytes"] >> 20 if "bytes" in answer else None
    return {name: value for name, value in made.items() if value is not None}


def _mib(kib: int | None) -> int | None:
    return None if kib is None else kib >> 10


def _order(conversation: Conversation) -> dict[str, Any]:
    """Who has the event first. A lead is above 0 if the extension had it before the handler began."""
    for _ in range(INVOCATIONS):
        conversation.ask({"do": "order"})
    leads = conversation.ask({"do": "arrivals"})["leadsUs"]
    if not leads["ok"]:
        raise Failed(leads["error"])
    leads = sorted(leads["value"])
    if not leads:
        raise Failed("the extension noted no event")
    at = {name: leads[min(len(leads) - 1, int(share * len(leads)))] for name, share in (("p50", 0.5), ("p99", 0.99))}
    return {
        "invocations": len(leads),
        "extensionFirst": sum(lead > 0 for lead in leads),
        "extensionLeadUs": {"min": leads[0], **at},
    }


def _freeze(conversation: Conversation) -> dict[str, Any]:
    """Leave the environment alone, and ask its processes what they saw of that time. Milliseconds."""
    ready = conversation.ask({"do": "freeze"})["ready"]
    if not ready["ok"]:
        raise Failed(ready["error"])
    conversation.ask({"do": "nothing"})  # its end is the one that the ticker is compared with
    time.sleep(IDLE_S)
    idle = conversation.ask({"do": "thaw"})["idle"]
    if not idle["ok"]:
        raise Failed(idle["error"])
    return {"idleMs": IDLE_S * 1000, **idle["value"]}


def _alone(environments: set[tuple[str, float]]) -> bool:
    if not environments:
        raise Failed("no answer came")
    return len(environments) == 1


def _first(pattern: re.Pattern[str], text: str) -> str:
    found = pattern.search(text)
    if found is None:
        raise Failed("it is not in the log")
    return found[1].strip()


_LINE = re.compile(r"truemem-probe (wrapper|hotspot|option) (\S+) (\S+(?: \w+:\S*)*)")
_MODE = re.compile(r"truemem INFO method=.* mode=(\w+)")
FILTERED = tuple(f"{who} {what}" for who in ("function", "extension") for what in ("plain", "info", "error"))
"""Lines that are printed below and above the filter's level."""


def wrapper(name: str, asked: Mapping[str, Any], messages: Iterable[str]) -> Outcome:
    """Whether the runtime of this function was started through the wrapper, and whether the sidecar is in exact mode
    there. `asked` is of `questions.wrapped`, `messages` are of the function alone."""
    messages = list(messages)
    said = _said(name, "wrapper", asked, messages)
    answer = asked["answer"]
    if not said:
        return answer if not answer["ok"] else refusal("it answers, but the wrapper's line is not in the log")
    value = {"runtime": said[0], "answered": answer["ok"]}
    if answer["ok"]:
        value["version"] = answer["value"].get("version")
    mode = _MODE.search("\n".join([asked["tail"], *messages]))
    if mode:
        value["sidecarMode"] = mode[1]
    return {"ok": True, "value": value}


def preload(asked: Mapping[str, Any]) -> Outcome:
    """Whether NODE_OPTIONS=--require had loaded a file of the layer."""
    answer = asked["answer"]
    if not answer["ok"]:
        return dict(answer)
    if answer["value"].get("preload") is not True:
        return refusal("Node.js started without it")
    return {"ok": True, "value": {"version": answer["value"].get("version")}}


def hotspot(name: str, asked: Mapping[str, Any], messages: Iterable[str]) -> Outcome:
    """Whether another process can read the counters of the JVM in /tmp/hsperfdata_USER/PID."""
    messages = list(messages)
    options = _said(name, "option", asked, messages)
    seen = _said(name, "hotspot", asked, messages)
    if not seen or seen[0] == "none":
        why = "the runtime ended before a file was seen" if not seen else "there is no file"
        return refusal(" ".join([why, *options]))
    fields = dict(field.split(":", 1) for field in seen[0].split())
    value = {"readable": fields.get("read") == "yes", "isHotSpots": fields.get("begin") == "cafec0c0"}
    return {"ok": True, "value": {**value, "bytes": int(fields.get("bytes") or 0), "options": options}}


def log_filter(name: str, asked: Outcome, messages: Iterable[str]) -> Outcome:
    """Which lines a log of the format JSON keeps from the level WARN on. True for each that is in the log."""
    if not asked["ok"]:
        return asked
    messages = list(messages)
    kept = {line: any(f"{name} {line}" in message for message in messages) for line in FILTERED}
    if not any(kept.values()):
        return refusal("no line of the function came")
    kept["line of truemem"] = any(name in message and "PeakRSS" in message for message in messages)
    return {"ok": True, "value": kept}


def _said(name: str, kind: str, asked: Mapping[str, Any], messages: Iterable[str]) -> list[str]:
    """What the wrapper of this function said, in the answer's log tail or in the log."""
    found = [match for text in (asked["tail"], *messages) for match in _LINE.findall(text)]
    return list(dict.fromkeys(said for of, function, said in found if (of, function) == (kind, name)))
