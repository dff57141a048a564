"""The line of code that keeps memory: read safely, merged over environments, and joined to the finding."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from truemem_workbench.judge.causes import find
from truemem_workbench.judge.curves import curves_of
from truemem_workbench.judge.finding import commands_deployed, commands_local
from truemem_workbench.judge.growth_lines import Growth, merged
from truemem_workbench.judge.witnesses import Witnesses
from truemem_workbench.page.environments import gather
from truemem_workbench.printed.growth import LONGEST, MOST_FRAMES, MOST_LINES, GrowthLine, GrowthProfile, profile_in
from truemem_workbench.printed.line import parse_event, read
from truemem_workbench.support.typed_command import Command as Typed

from tests.report.conftest import Command, Report, Told
from tests.report.profiled import PROFILE, STACK, growth_line, with_profile
from tests.report.written import extended, life

SENTENCE = "app.mjs:12 in save keeps 1,000.0 KiB in each invocation (97% of what grew; profiled over 60 invocations)."
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
)
NAMES = st.sampled_from(
    ["file", "line", "function", "perInvocationKiB", "share", "stack", "invocations", "gaveUp", "restKiB", "libraries"]
)
MEMBERS = st.dictionaries(NAMES, ANYTHING)
LINE = {"_aws": {"Timestamp": 1}, "truemem": 1, "schema": 1, "environmentId": "a"}


@given(st.lists(MEMBERS | ANYTHING) | ANYTHING, MEMBERS | ANYTHING)
def test_whatever_a_function_prints_is_read_safely(lines: Any, profile: Any) -> None:
    found = profile_in({"growthLines": lines, "growthProfile": profile})
    assert (found is not None) == isinstance(profile, dict)
    if found is not None:
        assert all(0 <= line.share <= 1 and line.kib > 0 and line.file.isprintable() for line in found.lines)
        assert merged([found]).environments == 1


def test_texts_of_a_profile_are_bounded_and_visible() -> None:
    hostile = growth_line(file="\x1b[2Japp.py", function="\u202e" + "f" * 1000, stack=["x\n"] * 100)
    found = profile_in({"growthLines": [hostile] * 50, "growthProfile": {"gaveUp": "\x07"}})
    assert found is not None
    line = found.lines[0]
    assert (len(found.lines), len(line.stack), line.stack[0]) == (MOST_LINES, MOST_FRAMES, "x\\n")
    assert (line.file, line.function[:7], found.gave_up) == ("\\x1b[2Japp.py", "\\u202ef", "\\x07")
    assert len(line.function) < LONGEST + 10


def test_a_class_of_the_functions_own_comes_first() -> None:
    classes = [
        {"class": "com.acme.Order", "perInvocationKiB": 0.8, "perInvocationObjects": 20.0, "share": 0.02},
        {"class": "[B", "perInvocationKiB": 39.0, "perInvocationObjects": 20.0, "share": 0.98},
    ]
    found = profile_in({"growthLines": classes, "growthProfile": {"runtime": "java", "invocations": 60}})
    assert found is not None
    assert [line.place for line in found.lines] == ["com.acme.Order", "[B"]
    sentence = merged([found, found]).sentence()
    assert sentence.startswith("com.acme.Order keeps 0.8 KiB in each invocation (2% of what grew;")


# --- Merged over environments -----------------------------------------------------------------------------------------

LINES = st.builds(
    GrowthLine,
    file=st.sampled_from(["app.py", "store.py"]),
    line=st.integers(1, 3),
    function=st.sampled_from(["handler", "save"]),
    kib=st.floats(0.1, 1000),
    share=st.just(0.0),
    rank=st.just(0),
    stack=st.sampled_from([(), ("app.py:1 handler",)]),
)


def profile_of(lines: list[GrowthLine], invocations: int, rest: float, gave_up: str) -> GrowthProfile:
    whole = sum(line.kib for line in lines) + rest
    shared = tuple(line._replace(share=line.kib / whole) for line in lines)
    return GrowthProfile(shared, "python", invocations, 6, 1.0, 10.0, 5.0, gave_up, rest, ())


PROFILES = st.lists(
    st.builds(
        profile_of,
        st.lists(LINES, max_size=4, unique_by=lambda line: line[:3]),
        st.integers(1, 200),
        st.floats(0, 100),
        st.sampled_from(["", "", "cpu", "memory"]),
    ),
    max_size=6,
)


def figures(growth: Growth) -> dict[tuple[Any, ...], Any]:
    return {
        line.key: pytest.approx((line.kib, line.share, each.environments), abs=1e-6)
        for each in growth.lines
        for line in [each.line]
    }


@given(PROFILES, st.randoms())
def test_merge_is_a_weighted_mean_in_any_order(profiles: list[GrowthProfile], random: Any) -> None:
    growth = merged(profiles)
    known = [each for each in profiles if each.lines or not each.gave_up]
    assert (growth.environments, growth.counted) == (len(profiles), len(known))
    assert sum(growth.gave_up.values()) == sum(bool(each.gave_up) for each in profiles)
    for each in growth.lines:
        of = [(p.invocations, line.kib) for p in known for line in p.lines if line.key == each.line.key]
        assert each.line.kib == pytest.approx(sum(n * kib for n, kib in of) / sum(p.invocations for p in known))
        assert each.environments == len(of)
    whole = sum(each.line.kib for each in growth.lines) + growth.rest_kib
    assert [each.line.share for each in growth.lines] == pytest.approx([each.line.kib / whole for each in growth.lines])
    assert [each.line.kib for each in growth.lines] == sorted((each.line.kib for each in growth.lines), reverse=True)

    shuffled = list(profiles)
    random.shuffle(shuffled)
    assert figures(merged(shuffled)) == {
        each.line.key: (each.line.kib, each.line.share, each.environments) for each in growth.lines
    }
    twice = merged([*profiles, *profiles])
    assert [each.line.kib for each in twice.lines] == pytest.approx([each.line.kib for each in growth.lines])


# --- What the profile takes is no growth ---------------------------------------------------------------------------


@given(st.floats(0, 20), st.integers(200, 4000), st.integers(140, 600), st.integers(0, 3))
def test_room_of_a_profile_leaves_rate_and_verdict(rate: float, room_kib: int, end: int, behind: int) -> None:
    """RSS rises by the room, and not before that is used again. What is in use has the profile's tables meanwhile."""
    lines = []
    for number in range(1, 1001):
        kept, runs = rate * number, end - 60 < number <= end
        rss = kept if number <= end - 60 else max(rate * (end - 60) + room_kib, kept)
        heap = {"inUse": 3, "held": 1, "mapped": 0, "blocks": 9, "small": 9 + kept / 1024 + runs * 0.6}
        profile = {"growthProfile": PROFILE} if number == end + behind else {}
        members = {"invocation": number, "CurrentRSS": 30 + rss / 1024, "heap": heap, **profile}
        lines += parse_event(json.dumps({**LINE, "requestId": str(number), **members}))
    found = Witnesses(curves_of(lines))
    assert found.of("inUse").name == ("growing" if rate > 1 else found.of("inUse").name)
    assert found.of("inUse").per_invocation_kib == pytest.approx(rate, abs=0.1)
    assert (found.rss.per_invocation_kib or 0) <= rate + 0.1


# --- The finding ------------------------------------------------------------------------------------------------------


def test_every_command_names_the_line(report: Report, told: Told, truemem: Command, tmp_path: Path) -> None:
    """One environment has named it; the finding of the other one has it too."""
    lines = [*with_profile(life("a", grows=1.0), growth_line()), *life("b", grows=1.0)]
    made = report(lines)
    (function,) = made["functions"]
    finding = function["finding"]
    assert SENTENCE in finding["sentence"]
    assert finding["next"] == "truemem lines orders"
    assert finding["line"] == {
        "file": "app.mjs",
        "line": 12,
        "function": "save",
        "perInvocationKiB": 1000.0,
        "share": 0.97,
        "environments": 1,
        "invocations": 60,
        "stack": list(STACK),
    }
    assert [each["finding"]["line"] for each in made["environments"]] == [finding["line"]] * 2
    assert SENTENCE in told(lines, "--all")
    assert SENTENCE in truemem("doctor", tmp_path / "log.txt").out
    assert {each.finding.paragraph() for each in gather(read([tmp_path / "log.txt"]))} == {finding["sentence"]}


def test_versions_have_lines_of_their_own(report: Report) -> None:
    lines = [
        *with_profile(life("a", grows=1.0, functionVersion="41"), growth_line()),
        *life("b", grows=1.0, functionVersion="42"),
    ]
    found = {each["version"]: each["finding"] for each in report(lines)["functions"]}
    assert ("line" in found["41"], "line" in found["42"]) == (True, False)
    assert found["42"]["next"] == "truemem attach orders --lines"


@pytest.mark.parametrize(
    ("grows", "growth_lines", "profile", "said"),
    [
        (0.0, [growth_line()], {}, ""),
        (1.0, [growth_line(kib=3.0)], {}, ""),
        (1.0, [], {"gaveUp": "cpu"}, "No line is known: the profile was given up (cpu)."),
        (1.0, [], {}, "The profile of 60 invocations found no line that keeps it."),
    ],
    ids=["nothing grows", "it keeps little of what grows", "gave up", "no line found"],
)
def test_no_line_is_accused_without_evidence(
    report: Report, grows: float, growth_lines: list[Any], profile: dict[str, Any], said: str
) -> None:
    (plain,) = report(life("a", grows=grows))["functions"]
    (function,) = report(with_profile(life("a", grows=grows), *growth_lines, **profile))["functions"]
    assert "line" not in function["finding"]
    assert said in function["finding"]["sentence"]
    assert function["finding"]["cause"] == plain["finding"]["cause"]
    tried = "truemem events orders --since 1h --output events.jsonl"
    assert function["finding"]["next"] == (tried if grows else plain["finding"]["next"])


def test_a_local_run_names_the_line_and_explains_it() -> None:
    lines = [each for text in with_profile(life("a", grows=1.0), growth_line()) for each in parse_event(text)]
    finding = find(curves_of(lines), commands_local(Typed("check", ("app.mjs:handler",))))
    assert SENTENCE in finding.paragraph()
    assert finding.next == "truemem explain app.mjs:handler"
    assert find(curves_of(lines), commands_deployed("orders")).next == "truemem lines orders"


def test_an_open_question_names_the_line_as_one(report: Report) -> None:
    lines = life("a", grows=1.0)
    for at, text in enumerate(lines):  # the heap rises, and was not collected yet
        heap = {"runtime": "nodejs", "limit": 800, "committed": 300, "used": 20.0 + at, "collections": 0}
        lines[at] = json.dumps({**json.loads(text), "heap": heap})
    (plain,), (function,) = (report(each)["functions"] for each in (lines, with_profile(lines, growth_line())))
    assert (plain["finding"]["cause"], function["finding"]["cause"]) == ("undecided", "undecided")
    assert f"If it is a leak: {SENTENCE}" in function["finding"]["sentence"]
    assert function["finding"]["next"] == "truemem lines orders"


def test_an_extension_that_grows_accuses_no_line(report: Report) -> None:
    (function,) = report(with_profile(extended(300), growth_line()))["functions"]
    assert function["finding"]["cause"] == "extension"
    assert "line" not in function["finding"]


def test_a_line_in_a_wrapper_is_read_too(report: Report) -> None:
    lines = with_profile(life("a", grows=1.0), growth_line())
    (function,) = report([json.dumps({"message": each}) for each in lines])["functions"]
    assert SENTENCE in function["finding"]["sentence"]
