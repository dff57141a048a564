"""What a tool answers: the finding in words first, then the document of `--json`, both bounded. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ..support.untrusted_text import visible

MOST_TEXT = 8_000
"""Most characters of the text."""
MOST_DOCUMENT = 32_000
"""Most characters of the document as JSON: an assistant reads all of it."""
KEPT_ITEMS = (1_000, 100, 20, 5, 1)
"""Items that each list and object keeps: the first number with which the document is small enough."""
MOST_TEXT_CHARS = 2_000
"""Characters that a text of the document keeps, if the document is too large."""
MOST_ROWS = 10
"""Rows of a list in the text."""

Document = Mapping[str, Any]


class AnswerText(NamedTuple):
    """The text of an answer."""

    lines: Sequence[str]
    """The most important first."""
    next: str = ""
    """The command to type next."""


def text_of(told: AnswerText, notes: Sequence[str], command: str) -> str:
    """The lines, what the command said beside them, and the next command. `command` prints all of it."""
    lines = [visible(line) for line in (*told.lines, *(f"note: {note}" for note in notes)) if line]
    last = [f"Next: {visible(told.next)}"] if told.next else []
    room = MOST_TEXT - sum(map(len, last))
    kept = []
    for number, line in enumerate(lines):
        if len(line) + 1 > room:
            last.insert(0, f"Cut: {len(lines) - number} more lines. All of it: {visible(command)}"[:MOST_TEXT_CHARS])
            break
        kept.append(line)
        room -= len(line) + 1
    return "\n".join([*kept, *last])


def bounded(document: Document, command: str) -> dict[str, Any]:
    """The document, of which long lists and texts are cut until it has MOST_DOCUMENT characters. `cut` says what is
    missing, and which command prints all of it."""
    if len(json.dumps(document)) <= MOST_DOCUMENT:
        return dict(document)
    for most in KEPT_ITEMS:
        cut: dict[str, str] = {}
        shorter = _shortened(document, most, "", cut)
        missing = dict(list(cut.items())[:MOST_ROWS])
        made = {**shorter, "cut": {"all": command[:MOST_TEXT_CHARS], **missing}}
        if len(json.dumps(made)) <= MOST_DOCUMENT:
            return made
    return {"cut": {"all": command[:MOST_TEXT_CHARS]}}


def _shortened(value: Any, most: int, place: str, cut: dict[str, str]) -> Any:
    if isinstance(value, Mapping):
        if len(value) > max(most, 50):  # the document itself has some twenty members, a finding sixteen
            cut[place] = f"{max(most, 50):,} of {len(value):,}"
        items = list(value.items())[: max(most, 50)]
        return {
            name[:MOST_TEXT_CHARS]: _shortened(each, most, f"{place}.{name}"[-200:].lstrip("."), cut)
            for name, each in items
        }
    if isinstance(value, list):
        if len(value) > most:
            cut[place] = f"{most:,} of {len(value):,}"
        return [_shortened(each, most, place, cut) for each in value[:most]]
    return value[:MOST_TEXT_CHARS] if isinstance(value, str) else value


def of_report(document: Document) -> AnswerText:
    """The most urgent function in full, and what to act on of the others."""
    functions, actions, others = document["functions"], document["actions"], document["without_sidecar"]
    own_log = [f"{each['function'] or each['file']}: {each['state']}: {each['sentence']}" for each in others]
    own_log = own_log[:MOST_ROWS]
    if not actions:
        return AnswerText([*own_log, document["summary"]], others[0]["next"] if others else "")
    first, several = actions[0], len(functions) > 1
    name = f"{first['function']}:{first['version']}"
    (own,) = [each for each in functions if f"{each['function']}:{each['version']}" == name][:1]
    prefix = f"{name}: " if several else ""
    sentences = [each.removeprefix(prefix) for each in document["sentences"] if each.startswith(prefix)]
    finding = own["finding"]
    lines = [_without_next(finding) if each == finding["sentence"] else each for each in sentences]
    compared = document.get("comparison", {}).get("sentence", "")
    more = [f"{each['function']}:{each['version']}: {each['text']}" for each in actions[1:MOST_ROWS]]
    rest = [f"and {len(actions) - MOST_ROWS:,} more"] if len(actions) > MOST_ROWS else []
    own_lines = [f"{name}: {lines[0]}", *lines[1:]]
    return AnswerText(
        [compared, *own_lines, first["text"], *more, *rest, *own_log, document["summary"]], finding.get("next", "")
    )


def _without_next(finding: Document) -> str:
    sentence: str = finding["sentence"]
    return sentence.removesuffix(f" Next: {finding['next']}") if finding.get("next") else sentence


GRADES = ("problem", "note", "ok")


def of_doctor(document: Document) -> AnswerText:
    """Problems first."""
    found = sorted(document["findings"], key=lambda each: GRADES.index(each["grade"]))
    lines = []
    for each in found:
        evidence = f" ({each['evidence']})" if each["evidence"] else ""
        lines.append(f"{each['grade']}: {each['text']}{evidence}" + (f" Do: {each['fix']}" if each["fix"] else ""))
    following = (each["fix"] or each["text"].partition(" Next: ")[2] for each in found)
    return AnswerText(lines, next(filter(None, following), ""))


def of_lines(document: Document) -> AnswerText:
    """Each version's lines of code, what keeps most first, and what two versions differ by."""
    lines = []
    for version in document["versions"]:
        name = f"{version['function']}:{version['version']}"
        kept = version["lines"]
        gave_up = "".join(f"; {count:,} gave up: {reason}" for reason, count in version["gaveUp"].items())
        if not kept:
            lines.append(f"{name}: no line is named ({version['environments']:,} environments profiled{gave_up})")
        for each in kept[:MOST_ROWS]:
            way = f", by way of {' > '.join(each['stack'])}" if len(each.get("stack", ())) > 1 else ""
            lines.append(
                f"{name}: {each['file']}:{each['line']} {each['function']} keeps {each['perInvocationKiB']:,.1f} KiB of"
                f" each invocation, {each['share']:.0%} of what grew{way}"
            )
        lines.append(f"{name}: {version['restKiB']:,.1f} KiB of each invocation are in no line" if kept else "")
    for pair in document["compared"]:
        lines += [
            f"{each['function']} in {each['file']}: {each['beforeKiB']:,.1f} KiB of each invocation in version"
            f" {pair['before']}, {each['afterKiB']:,.1f} in {pair['after']}"
            for each in pair["changes"][:MOST_ROWS]
        ]
    return AnswerText(lines, document["next"])


def of_check(document: Document) -> AnswerText:
    """The finding, the outcome, limits that were not kept, and the lines that hold what grew."""
    finding = document["finding"]
    lines = [
        _without_next(finding),
        f"{document['checked']}: {document['outcome']}, {document['invocations']:,} invocations",
        *(f"{each['outcome']}: {_limit(each, finding)}" for each in document["limits"] if each["outcome"] != "kept"),
        *_holding(document.get("explanation")),
        *_tried(document.get("tried")),
        *document["notices"],
        *document.get("log", ())[-MOST_ROWS:],
    ]
    return AnswerText(list(dict.fromkeys(lines)), finding.get("next", ""))


def _limit(limit: Document, finding: Document) -> str:
    """The sentence of a limit; the limit's name alone if the finding has said the sentence."""
    sentence: str = limit["name"] if limit["sentence"] == finding["sentence"] else limit["sentence"]
    return sentence


def of_explain(document: Document) -> AnswerText:
    """The lines that hold what grew, after the finding."""
    finding, found = document["finding"], list(_holding(document.get("explanation")))
    if "explanation" in document and not found:
        found = ["no line of code holds what grows"]
    return AnswerText([_without_next(finding), *found], finding.get("next", ""))


def _holding(explanation: Document | None) -> Iterator[str]:
    for each in (explanation or {}).get("lines", [])[:MOST_ROWS]:
        place = f"{each['file']}:{each['line']}" if each.get("line") else "no line"
        code = f" `{each['source'].strip()}`" if each.get("source") else ""
        what = " ".join(filter(None, (each["kind"], each.get("owner"))))
        yield (
            f"{place}{code} holds {each['perInvocationKiB']:,.1f} KiB of each invocation, {each['share']:.0%} of what"
            f" grew: {what}"
        )
    yield from (explanation or {}).get("missing", ())


def _tried(tried: Document | None) -> Iterator[str]:
    if tried is not None:
        setting = " ".join(f"{name}={value}" for name, value in tried["setting"].items())
        yield f"tried with {setting}: {'it helps' if tried['helps'] else 'it does not help'}"


def of_size(document: Document) -> AnswerText:
    """What is suggested, what must be done first, and why a size is out."""
    return AnswerText([*document["sentences"], *document["notices"]], document["next"])


def of_plan(document: Document) -> AnswerText:
    """What would be done. Nothing was changed."""
    return AnswerText(
        ["Nothing is changed yet. The plan:", *document["plan"], "With apply=true the tool carries it out."]
    )


def of_changes(document: Document) -> AnswerText:
    """How it went with each function."""
    functions = document["functions"]
    lines = [": ".join(filter(None, (each["function"], each["status"], each.get("reason")))) for each in functions]
    return AnswerText(lines, document["next"])


Tell = Callable[[Document], AnswerText]
