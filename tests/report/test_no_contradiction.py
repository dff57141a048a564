"""Every command says the same of the same lines, and says it once: outputs of random environments are parsed."""

import json
import re
import tempfile
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

from click.testing import CliRunner
from hypothesis import example, given, settings
from hypothesis import strategies as st
from truemem_workbench.answer import limits
from truemem_workbench.answer.outputs import github_annotations, github_summary, junit_document, plain_text
from truemem_workbench.answer.result import Result
from truemem_workbench.commands.__main__ import cli
from truemem_workbench.commands.local_summary import summarise
from truemem_workbench.judge.finding import TOO_FEW, Commands
from truemem_workbench.local import Report
from truemem_workbench.page.environments import gather
from truemem_workbench.printed.line import Line, parse_event
from truemem_workbench.runs.measurement import Measurement, Recorded

from tests.report.profiled import growth_line, with_profile
from tests.report.written import line, log

INVOCATIONS, LIMIT = 200, 512
TITLES = {
    "native": r"Leak in native memory|Leak[^;.]{0,30}: [^;]{0,120}? in native memory",
    "leak": r"Leak(?: with \d+% confidence)?[:,] ",
    "hoarding": r"Hoarding",
    "processes": r"Child processes stay|Nearly as many processes",
    "threads": r"Threads stay|Nearly as many threads",
    "descriptors": r"Descriptors stay|Nearly as many descriptors",
    "tmp": r"/tmp fills|/tmp is nearly full",
    "extension": r"The extension \S+ keeps memory",
    "failing": r"Failing: ",
    "undecided": r"Undecided|Out of memory before growth|heap ran out",
    "collector": r"No leak: the garbage collector|No leak: it was garbage",
    "page-cache": r"are page cache",
    "cache": r"No leak: memory has grown and stopped",
    "none": r"No leak: memory does not grow",
}
"""What a finding begins with, by its cause; the first that fits."""
FINDINGS = re.compile("|".join(f"(?P<{cause.replace('-', '_')}>{words})" for cause, words in TITLES.items()))
HARMLESS = ("none", "cache", "collector", "page-cache")
ACCUSES = re.compile(r"Leak\b|Hoarding|\bstay(?: open)?:|/tmp fills|keeps memory|is reached")


def causes_in(text: str) -> list[str]:
    """The causes of all findings in a text, in their order."""
    return [str(each.lastgroup).replace("_", "-") for each in FINDINGS.finditer(" ".join(text.split()))]


Plan = dict[str, Any]
flag = st.booleans()
PLANS: st.SearchStrategy[Plan] = st.fixed_dictionaries(
    {
        "rss": flag,
        "heap": st.none()
        | st.fixed_dictionaries(
            {"in_use": flag, "held": st.sampled_from(["little", "much", "grows"]), "blocks": st.none() | flag}
        )
        | st.sampled_from(["lazy", "live grows", "live level"]),
        "processes": flag,
        "threads": flag,
        "descriptors": st.none() | flag,
        "tmp": st.none() | flag,
        "extension": st.none() | flag,
        "cached": flag,
        "failing": st.sampled_from([0, 0, 0, 4, 1]),
        "killed": flag,
        "profiled": flag,
    }
)
CALM: Plan = {"processes": False, "threads": False, "descriptors": None, "tmp": None, "failing": 0, "killed": False}
MEMORY = st.builds(lambda plan: {**plan, **CALM}, PLANS)
"""Only memory moves: else what is counted hides it in most plans."""


PLAIN: Plan = {**CALM, "rss": False, "heap": None, "extension": None, "cached": False, "profiled": False}


def lines_of(plan: Plan, name: str) -> list[str]:
    """The lines of a function of this name. What grows does so by 1 MiB, or by 1, with each invocation."""

    def level(base: float, grows: bool | None, n: int) -> float:
        return base + n * bool(grows) + n * 7 % 5 / 256

    def heap(n: int) -> dict[str, Any] | None:
        kind = plan["heap"]
        if isinstance(kind, dict):
            held = {"little": 3.0, "much": 60.0, "grows": level(20, True, n)}[kind["held"]]
            blocks = None if kind["blocks"] is None else 100_000 + 4096 * n * kind["blocks"]
            return {"inUse": level(60, kind["in_use"], n), "held": held, "mapped": 1.0, "blocks": blocks}
        if kind is None:
            return None
        collections = 0 if kind == "lazy" else n // 10
        live = 20.0 + collections * 10 * (kind == "live grows")
        used = 20.0 + n if kind == "lazy" else live + n % 10
        more = {} if kind == "lazy" else {"live": live}
        return {"runtime": "java", "limit": 435, "committed": 300, "used": used, "collections": collections, **more}

    def resources(n: int) -> dict[str, Any]:
        told: dict[str, Any] = {}
        if plan["descriptors"] is not None:
            told["descriptors"] = {"open": 20 + n * plan["descriptors"], "limit": 1024}
            if plan["descriptors"] and n >= 128:
                told["descriptors"] |= {"verdict": "growing", "perInvocation": 1.0, "invocationsLeft": 1004 - n}
        if plan["tmp"] is not None:
            told["tmp"] = {"used": 5.0 + n * plan["tmp"], "size": 512.0}
            if plan["tmp"] and n >= 128:
                told["tmp"] |= {"verdict": "growing", "perInvocationKiB": 1024.0, "invocationsLeft": 507 - n}
        return told

    made = []
    for n in range(1, INVOCATIONS + 1):
        rss, extension = level(100, plan["rss"], n), level(20, plan["extension"], n)
        extensions = {} if plan["extension"] is None else {"agent": extension}
        members = {
            "CurrentRSS": rss,
            "PeakRSS": rss + 5,
            "MaxMemoryUsed": rss + 40,
            "memoryLimit": LIMIT,
            "processes": 1 + n * plan["processes"],
            "threads": 4 + n * plan["threads"],
            "heap": heap(n),
            "resources": resources(n) or None,
            "holders": {"function": rss, "truemem": 5.0, "extensions": extensions},
            "environmentKills": 1 if plan["killed"] and n == INVOCATIONS else None,
        }
        if plan["failing"] and n % plan["failing"] == 0:
            members |= {"status": "error", "errorType": "Boom"}
        text = line(name, n, FunctionName=name, **members)
        made.append(text[:-1] + ',"environment":{"used":500.0}}' if plan["cached"] else text)
    return with_profile(made, growth_line(1024.0)) if plan["profiled"] else made


def said_by_the_gate(lines: list[Line]) -> dict[str, str]:
    seen = [Recorded(number, each) for number, each in enumerate(lines, 1)]
    measured = Measurement("app.py:handler", seen, len(seen), 0, LIMIT, 1.0)
    result = Result(measured, limits.find(measured, limits.Limits()))
    return {
        "check": plain_text(result),
        "GitHub's summary": github_summary(result),
        "JUnit's output": ET.tostring(junit_document(result), encoding="unicode", method="text"),
    } | {f"annotation {at}": each for at, each in enumerate(github_annotations(result)) if causes_in(each)}


def said_by_the_local_run(texts: list[str], lines: list[Line]) -> str:
    reports = [
        Report(each.request_id or "", each.status or "", each.error_type, 99.5, 100, LIMIT, 140, None) for each in lines
    ]
    summary = summarise(reports, [], texts, Commands(again="truemem check app.py:handler"))
    return " ".join([summary.finding.paragraph(), *summary.sentences])


def said_by_the_report(path: Path, names: list[str]) -> tuple[dict[str, tuple[str, str, str]], dict[str, Any]]:
    """By function: its paragraph, its sentences in the text, and what it needs; and its finding as JSON."""
    text, document = (CliRunner().invoke(cli, ["report", str(path), *more]).stdout for more in (["--all"], ["--json"]))
    made = json.loads(document)
    needs = {each["function"]: each["need"] for each in made["actions"]}
    paragraphs = {each["function"]: each["finding"]["sentence"] for each in made["functions"]}
    printed = {
        name: "\n".join(each for each in text.splitlines() if each.startswith(f"- {name}:$LATEST: ")) for name in names
    }
    findings = {each["function"]: each["finding"] for each in made["functions"]}
    return {name: (paragraphs[name], printed[name], needs[name]) for name in names}, findings


@example([{**PLAIN, "heap": {"in_use": True, "held": "grows", "blocks": False}}, {**PLAIN, "killed": True}])
@example([{**PLAIN, "rss": True, "heap": {"in_use": False, "held": "little", "blocks": True}}, PLAIN])
@settings(max_examples=max(1, settings().max_examples // 20))  # 2 s each
@given(st.lists(PLANS | MEMORY, min_size=2, max_size=8))
def test_all_commands_name_one_cause_for_the_same_lines(plans: list[Plan]) -> None:
    texts = {f"f{number}": lines_of(plan, f"f{number}") for number, plan in enumerate(plans)}
    parsed = {name: [each for text in of for each in parse_event(text)] for name, of in texts.items()}
    with tempfile.TemporaryDirectory() as folder:
        path = log(Path(folder), [text for of in texts.values() for text in of])
        report, documents = said_by_the_report(path, list(texts))
        diagnosed = CliRunner().invoke(cli, ["doctor", str(path), "--json"]).stdout.splitlines()
    for name, lines in parsed.items():
        plan = plans[int(name[1:])]
        (environment,) = gather(lines)
        paragraph, printed, need = report[name]
        (doctor,) = (text for each in diagnosed if (text := json.loads(each)["text"]).startswith(f"{name}: "))
        patient = {"page": environment.finding.paragraph(), "report": printed, "--json": paragraph, "doctor": doctor}
        gate = {"local run": said_by_the_local_run(texts[name], lines), **said_by_the_gate(lines)}
        for outputs in (patient, gate):
            (cause, *others) = {cause for text in outputs.values() for cause in causes_in(text)}
            assert not others, (plan, outputs)
            for output, text in outputs.items():
                assert len(causes_in(text)) == 1 or output.startswith("JUnit"), (plan, output, text)
                named = "app.mjs:12 in save" in text
                assert named <= (plan["profiled"] and cause in ("leak", "native", "undecided")), (plan, output, text)
                if cause in HARMLESS:
                    assert not ACCUSES.search(text), (plan, output, text)
                else:
                    assert "No leak" not in text, (plan, output, text)
                if plan["killed"]:
                    assert "ended" in text, (plan, output, text)
                if environment.finding.grows or cause in ("failing", "undecided"):
                    assert "Smallest safe memory size" not in text, (plan, output, text)
        of_patient, of_gate = causes_in(paragraph)[0], causes_in(gate["local run"])[0]
        assert of_patient in (of_gate, "undecided"), (plan, paragraph, gate["local run"])
        is_calm = of_patient in HARMLESS or (of_patient == "hoarding" and not environment.finding.grows)
        assert plan["killed"] or (need in ("nothing to do", "to measure", "near the limit")) is is_calm, (plan, need)
        assert of_patient == environment.finding.cause, (plan, paragraph)
        for member in ("cause", "holder", "hidden", "line"):
            assert documents[name].get(member) == environment.finding.document().get(member), (plan, member)
        assert environment.finding.pattern != TOO_FEW
