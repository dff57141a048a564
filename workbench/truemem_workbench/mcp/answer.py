"""What a tool answers: the finding in words first, then the document of `--json`, both bounded. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ..judge.finding import AFTER_REPAIR, GROWS
from ..support.terminal import counted
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
    """The command to type next, as the document has it."""
    when: str = ""
    """After what it makes sense; empty: now."""
    done: str = ""
    """Why nothing is left to do; `next` is then for later."""


def text_of(lines: Sequence[str], notes: Sequence[str], ends: Sequence[str], command: str) -> str:
    """The lines, what the command said beside them, and `ends`: what follows. `command` prints all of it."""
    lines = [visible(line) for line in (*lines, *(f"note: {note}" for note in notes)) if line]
    last = [visible(each) for each in ends]
    room = MOST_TEXT - sum(map(len, last))
    kept = []
    for number, line in enumerate(lines):
        if len(line) + 1 > room:
            last.insert(0, f"Cut: {len(lines) - number} more lines. All of it: {visible(command)}"[:MOST_TEXT_CHARS])
            break
        kept.append(line)
        room -= len(line) + 1
    return "\n".join([*kept, *last])


NEXT = re.compile(r" ?Next(?:, [^:]{1,60})?: (?:truemem|aws) [^\n]*$")


def without_next(value: Any) -> Any:
    """A document without its shell commands to type next: an assistant gets the call of a tool in their place."""
    if isinstance(value, Mapping):
        return {name: without_next(each) for name, each in value.items() if name not in ("next", "nextWhen")}
    if isinstance(value, list):
        return list(map(without_next, value))
    return NEXT.sub("", value) if isinstance(value, str) else value


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
        following = others[0]["next"] if others else ""
        done = "" if following else "Lambda's own lines show no sign of growth"
        return AnswerText([*own_log, document["summary"]], following, done=done)
    first, several = actions[0], len(functions) > 1
    name = f"{first['function']}:{first['version']}"
    (own,) = [each for each in functions if f"{each['function']}:{each['version']}" == name][:1]
    prefix = f"{name}: " if several else ""
    sentences = [each.removeprefix(prefix) for each in document["sentences"] if each.startswith(prefix)]
    finding = own["finding"]
    lines = list(map(without_next, sentences))
    compared = document.get("comparison", {}).get("sentence", "")
    more = [f"{each['function']}:{each['version']}: {each['text']}" for each in actions[1:MOST_ROWS]]
    rest = [f"and {len(actions) - MOST_ROWS:,} more"] if len(actions) > MOST_ROWS else []
    own_lines = [f"{name}: {lines[0]}", *lines[1:]]
    told = [compared, *own_lines, first["text"], *more, *rest, *own_log, document["summary"]]
    if first["need"] == "out of memory" and finding["cause"] == "none":  # one event: which, and how much does it need?
        memory = f" --memory {own['size']:.0f}" if own["size"] else ""
        following = f"truemem check FILE:HANDLER --events @FILE{memory}"
        return AnswerText(told, following, "on this machine, with the events that it gets")
    done = "nothing grows" if first["need"] in WELL and finding["cause"] not in UNKNOWN else ""
    if done and own["tmp_unknown"]:
        return AnswerText(told, "truemem check FILE:HANDLER")
    following, when = finding.get("next", ""), finding.get("nextWhen", "")
    if finding["cause"] in GROWS and following.startswith("truemem report "):  # it tells no more before
        when = AFTER_REPAIR
    return AnswerText(told, following, when, done)


WELL = ("nothing to do", "oversized", "to measure")
UNKNOWN = ("undecided", "failing")


GRADES = ("problem", "note", "ok")


def of_doctor(document: Document) -> AnswerText:
    """Problems first."""
    found = sorted(document["findings"], key=lambda each: GRADES.index(each["grade"]))
    lines = []
    for each in found:
        evidence = f" ({each['evidence']})" if each["evidence"] else ""
        lines.append(f"{each['grade']}: {each['text']}{evidence}" + (f" Do: {each['fix']}" if each["fix"] else ""))
    said = ((each["fix"], NEXT.search(each["text"])) for each in found if each["grade"] == "problem")
    following = (fix or (told and told[0].partition(": ")[2]) for fix, told in said)
    return AnswerText(list(map(without_next, lines)), next(filter(None, following), "truemem report NAME"))


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
        without_next(finding["sentence"]),
        f"{document['checked']}: {document['outcome']}, {document['invocations']:,} invocations",
        *(f"{each['outcome']}: {_limit(each, finding)}" for each in document["limits"] if each["outcome"] != "kept"),
        *_holding(document.get("explanation")),
        *_tried(document.get("tried")),
        *document["notices"],
        *document.get("log", ())[-MOST_ROWS:],
    ]
    passed = document["outcome"] == "passed"
    done = "the gate passes: every limit was kept, and nothing grows" if passed else ""
    return AnswerText(list(dict.fromkeys(lines)), finding.get("next", ""), finding.get("nextWhen", ""), done)


def _limit(limit: Document, finding: Document) -> str:
    """The sentence of a limit; the limit's name alone if the finding has said the sentence."""
    sentence: str = limit["name"] if limit["sentence"] == finding["sentence"] else without_next(limit["sentence"])
    return sentence


def of_explain(document: Document) -> AnswerText:
    """The lines that hold what grew, after the finding; or what init holds."""
    if "init" in document:
        return AnswerText([*_parts(document["init"]), *document["notices"]], document["next"])
    finding, found = document["finding"], list(_holding(document.get("explanation")))
    if "explanation" in document and not found:
        found = ["no line of code holds more with each invocation"]
    told = [without_next(finding["sentence"]), *found]
    return AnswerText(told, finding.get("next", ""), finding.get("nextWhen", ""))


def _parts(init: Document) -> Iterator[str]:
    yield f"Init holds {init['heldMiB']:,.1f} MiB and takes {init['ms']:,.0f} ms"
    for each in init["parts"][:MOST_ROWS]:
        yield f"{each['kind']} {each['name']}: {each['mib']:,.1f} MiB, {each['ms']:,.0f} ms"
    yield init["answer"]


def of_run(document: Document) -> AnswerText:
    """How the invocations went, and what the function logged."""
    answers = [each["response"] for each in document["lines"] if "response" in each]
    texts = (each["log"]["text"] for each in document["lines"] if each.get("log", {}).get("source") == "function")
    log = [line for text in texts for line in re.split(r"[\r\n]+", text)]
    finding = document["summary"]["finding"]
    failed = next((json.dumps(each["payload"]) for each in answers if each.get("functionError")), "")
    last = f"its first error: {failed}" if failed else f"its last answer: {json.dumps(answers[-1]['payload'])}"
    bad, all_of = document["summary"]["failed"], len(answers)
    went = f"{bad:,} of {counted(all_of, 'invocation')} failed." if bad else "The invocation succeeded."
    went = f"All {all_of:,} invocations succeeded." if not bad and all_of > 1 else went
    lines = [went, last[:MOST_TEXT_CHARS]]
    lines += [finding["repair"]] if finding["cause"] == "failing" else []
    following = re.sub(r" --invocations \d+", "", finding.get("next", ""))  # check knows how many
    told = [*lines, *(f"log: {line}" for line in log[-3 * MOST_ROWS :])]
    return AnswerText(told, following, finding.get("nextWhen", ""))


def of_triage(document: Document) -> AnswerText:
    """Each function's sentence, the most urgent first."""
    functions = document["functions"]
    lines = [f"{each['function']}:{each['version']}: {each['state']}: {each['sentence']}" for each in functions]
    rest = [f"and {len(functions) - MOST_ROWS:,} more"] if len(functions) > MOST_ROWS else []
    urgent = [each["next"] for each in functions if each["next"]]
    done = "" if urgent else "Lambda's own lines show no sign of growth"
    return AnswerText([*lines[:MOST_ROWS], *rest, document["summary"]], next(iter(urgent), ""), done=done)


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
    told = list(map(without_next, (*document["sentences"], *document["notices"])))
    return AnswerText(told, document["next"], document.get("nextWhen", ""))


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
