"""Outcomes that are in the log and in no answer: wrappers, HotSpot's counters, the log filter. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from .questions import Outcome, refusal

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
