"""Which of the outputs work (TRUEMEM_OUTPUT), from a function's variables and from the sidecar's log. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from truemem.config import DOGSTATSD, EMF, OTLP, Config
from truemem.platform import output_settings

from .diagnosis import Diagnosis

PAGE = "docs/outputs.md#when-it-does-not-arrive"
NAMES = {OTLP: "OpenTelemetry", DOGSTATSD: "DogStatsD"}
SENDS = re.compile(r" line=(yes|no) sends to (\S+)")
"""In the sidecar's first line, where it does not only print."""
ABOUT = re.compile(r"(otlp|dogstatsd)(?: is off| to \S+)?: ")
"""How its other lines about an output begin."""


WORKS = re.compile(r"otlp to \S+: works")
"""At the begin: what a collector says of a refusal is in such a line, too."""


def is_about(text: str) -> bool:
    """True if a line of the sidecar's log is about an output."""
    return ABOUT.match(text) is not None


def of_start(start: str) -> Iterator[Diagnosis]:
    """The finding on the sidecar's first line: where its records go."""
    found = SENDS.search(start)
    if found is None:
        return
    if found[2] == "none":
        yield Diagnosis("problem", "It can send to no output: its log says why.", PAGE)
    else:
        yield Diagnosis("ok", f"It sends to {found[2].replace(',', ' and ')}.")
    if found[1] == "no":
        yield _without_lines()


def of_said(said: Iterable[str]) -> Iterator[Diagnosis]:
    """The findings on what the log says of each output, in the order of the log: the last word counts."""
    last: dict[str, str] = {}
    for text in said:
        found = ABOUT.match(text)
        if found is not None:
            last[found[1]] = text
    for name, text in last.items():
        if WORKS.match(text):
            yield Diagnosis("ok", f"{NAMES[name]}: the collector takes what is sent.", evidence=text)
        else:
            yield Diagnosis("problem" if " is off: " in text else "note", f"{NAMES[name]}: {text}", PAGE)


def of_variables(variables: Mapping[str, str]) -> Iterator[Diagnosis]:
    """The findings on a function's variables, judged by the sidecar's own reading of them."""
    environ = {name.encode(): value.encode("utf-8", "replace") for name, value in variables.items()}
    config = Config(environ)
    evidence = f"TRUEMEM_OUTPUT={variables.get('TRUEMEM_OUTPUT', '')}"
    for problem in config.problems:
        if problem.startswith("TRUEMEM_OUTPUT "):
            yield Diagnosis("problem", problem, "docs/outputs.md", evidence)
    for name, settings in (OTLP, output_settings.otlp), (DOGSTATSD, output_settings.dogstatsd):
        if name in config.outputs:
            where, problems = settings(environ)
            for problem in problems:
                yield Diagnosis("problem" if where is None else "note", f"{NAMES[name]}: {problem}", PAGE, evidence)
            if where is not None:
                text = f"{NAMES[name]}: it sends to {where.address}, where something in the environment has to listen."
                yield Diagnosis("ok", text, evidence=evidence)
    if not config.prints:
        yield _without_lines(evidence)
    elif EMF not in config.outputs:
        text = "Its lines make no metrics in CloudWatch: `truemem dashboard` and `truemem metrics` find none."
        yield Diagnosis("note", text, "Add emf to TRUEMEM_OUTPUT if you want them.", evidence)


def _without_lines(evidence: str = "") -> Diagnosis:
    text = "It prints no lines: `truemem report`, `page` and `metrics` find nothing."
    return Diagnosis("note", text, "Add emf or json to TRUEMEM_OUTPUT if you want them.", evidence)
