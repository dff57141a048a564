"""Asks the functions of one architecture. Each question has an outcome with evidence, as in function/steps.py.

An outcome is `{"ok": true, "value": ...}`, or `{"ok": false, "error": ...}`, with `errno` where the kernel refused.
"""

from __future__ import annotations

import base64
import json
import re
import time
from collections.abc import Callable
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
    talk = Conversation(invoke)
    found: dict[str, Outcome] = {}
    environment = outcome(lambda: talk.ask({"do": "environment"})["steps"])
    found |= environment["value"] if environment["ok"] else {"environment": environment}
    found["mark"] = outcome(lambda: _marks(talk))
    found["order of release"] = outcome(lambda: _order(talk))
    found["freeze"] = outcome(lambda: _freeze(talk))
    found["one environment"] = outcome(lambda: _alone(talk.environments))
    found["sidecar"] = outcome(lambda: _first(_SIDECAR, talk.tail))
    return found


def wrapped(invoke: Invoke) -> dict[str, Any]:
    """Start a function through the exec wrapper: what it answers, if it can, and the end of its log."""
    talk = Conversation(invoke)
    return {"answer": outcome(lambda: talk.ask({})), "tail": talk.tail}


def filtered(invoke: Invoke) -> dict[str, Any]:
    """Make the function with the log filter print. The second invocation makes the sidecar's line of the first."""
    talk = Conversation(invoke)
    return outcome(lambda: [talk.ask({"do": "lines"}) for _ in range(2)])


def _marks(talk: Conversation) -> dict[str, dict[str, Any]]:
    """Max Memory Used after each question, or why there is none. Raises Failed if there is none at all."""
    asked = {when: outcome(lambda event=event: _mark(talk.ask(event))) for when, event in MARKS}  # type: ignore[misc]
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


def _order(talk: Conversation) -> dict[str, Any]:
    """Who has the event first. A lead is above 0 if the extension had it before the handler began."""
    for _ in range(INVOCATIONS):
        talk.ask({"do": "order"})
    leads = talk.ask({"do": "arrivals"})["leadsUs"]
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


def _freeze(talk: Conversation) -> dict[str, Any]:
    """Leave the environment alone, and ask its processes what they saw of that time. Milliseconds."""
    ready = talk.ask({"do": "freeze"})["ready"]
    if not ready["ok"]:
        raise Failed(ready["error"])
    talk.ask({"do": "nothing"})  # its end is the one that the ticker is compared with
    time.sleep(IDLE_S)
    idle = talk.ask({"do": "thaw"})["idle"]
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
