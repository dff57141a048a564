"""The interpreter: what the user guide says, and a refusal where it says nothing."""

from __future__ import annotations

import json

import pytest

from tests.attach.insights import LogEvent, discovered, names, run
from tests.attach.insights_functions import Undocumented, Value


def event(time_ms: int = 0, **members: object) -> LogEvent:
    return LogEvent(time_ms, "stream", json.dumps(members))


def column(query: str, *events: LogEvent) -> list[Value]:
    return [list(row.values())[-1] for row in run(query, events)]


def test_json_is_flattened_with_dots() -> None:
    row = discovered(event(a={"b-c": 1, "d": [{"e": "x"}]}, t=True, n=None))
    found = {name: value for name, value in row.items() if name[0] != "@"}
    assert found == {"a.b-c": 1, "a.d.0.e": "x", "t": True, "n": None}
    assert set(discovered(LogEvent(0, "stream", "no JSON"))) == {"@timestamp", "@message", "@logStream"}


def test_without_fields_an_answer_is_time_and_message_newest_first() -> None:
    assert run("limit 1", [event(1, a=1), event(2, a=2)]) == [{"@timestamp": 2, "@message": '{"a": 2}'}]


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("a + b * 2", 7),
        ("(a + b) * 2", 8),
        ("b - a - 1", 1),
        ("a / b", 1 / 3),
        ("abs(a - b)", 2),
        ("greatest(a, b)", 3),
        ("coalesce(missing, s)", "text"),
        ('concat(s, "/", `x-y`)', "text/9"),
        ("a + missing", None),
    ],
)
def test_expressions(expression: str, value: Value) -> None:
    assert column(f"fields {expression} as it", event(a=1, b=3, s="text", **{"x-y": 9})) == [value]


@pytest.mark.parametrize(
    ("condition", "found"),
    [
        ("a = 1 and b > 2", True),
        ("a = 1 and b > 3", False),
        ("a = 2 or b <= 3", True),
        ("not (a = 1)", False),
        ('s = "text"', True),
        ('s != "text"', False),
        ("s like /^t.x/", True),
        ('s like "t.x"', False),
        ("s in ['other', 'text']", True),
        ("s in ['other']", False),
        ("missing in ['text']", False),
        ("ispresent(flag) and not ispresent(missing)", True),
        ("missing > 1", False),
        ("ispresent(missing) and missing != 1", False),
        ("a = 1 or flag = 1", True),
    ],
)
def test_conditions(condition: str, found: bool) -> None:
    assert bool(run(f"filter {condition}", [event(a=1, b=3, s="text", flag=True)])) is found


@pytest.mark.parametrize(
    ("query", "refused"),
    [
        ("filter missing != 1", Undocumented),
        ("filter not (missing = 1)", Undocumented),
        ("filter flag = 1", Undocumented),
        ("filter a = 'text'", Undocumented),
        ("filter a", Undocumented),
        ("fields a / 0", Undocumented),
        ("fields s + 1", Undocumented),
        ("sort missing", Undocumented),
        ("stats count(*) by missing", Undocumented),
        ("stats a by s", Undocumented),
        ("", SyntaxError),
        ("explode a", SyntaxError),
        ("fields a b", SyntaxError),
        ("fields median(a)", SyntaxError),
        ("fields abs(a, b)", SyntaxError),
        ("fields coalesce(a, 0)", SyntaxError),
        ("filter ispresent(a + 1)", SyntaxError),
        ("fields under_score", SyntaxError),
        ("filter s in [a]", SyntaxError),
        ("fields a as", SyntaxError),
        ("filter a ==", SyntaxError),
        ("stats count(*) by bin(5)", SyntaxError),
        ("stats count(*) by bin(5m", SyntaxError),
        ("parse a", SyntaxError),
        ("limit many", SyntaxError),
        ("fields a |", SyntaxError),
        ("dedup a", SyntaxError),
    ],
)
def test_what_the_guide_does_not_say_and_what_is_not_known_here_is_refused(
    query: str, refused: type[Exception]
) -> None:
    with pytest.raises(refused):
        run(query, [event(a=1, s="text", flag=True)] if refused is Undocumented else [])


def test_stats_over_groups() -> None:
    events = [event(1_000, k="a", v=1), event(2_000, k="b", v=5), event(61_000, k="a", v=4, w=1), event(62_000, k="a")]
    rows = run(
        """stats count(*) as lines, count(v) as values, sum(v) as total, avg(v) as mean, min(v) as low,
        max(v) as high, earliest(v) as first, latest(v) as last, high - low as range by k | sort k""",
        events,
    )
    assert [*rows[0]] == ["k", "lines", "values", "total", "mean", "low", "high", "first", "last", "range"]
    assert [[*row.values()] for row in rows] == [
        ["a", 3, 2, 5, 2.5, 1, 4, 1, None, 3],
        ["b", 1, 1, 5, 5, 5, 5, 5, 5, 0],
    ]
    by_minute = run("stats sum(v) as total by bin(1m) as t | sort t", events)
    assert by_minute == [{"t": 0, "total": 6}, {"t": 60_000, "total": 4}]


def test_percentiles() -> None:
    events = [event(at, v=at) for at in range(1, 101)]
    assert run("stats pct(v, 50) as half, pct(v, 99) as most, pct(v, 100) as all", events) == [
        {"half": 50, "most": 99, "all": 100}
    ]


def test_sort_limit_and_display() -> None:
    events = [event(k=k, v=v) for k, v in (("a", 1), ("b", 2), ("a", 3))]
    assert run("fields k, v | sort k desc, v desc | limit 2", events) == [{"k": "b", "v": 2}, {"k": "a", "v": 3}]
    assert column("fields k, v | sort v | display k", *events) == ["a", "b", "a"]


def test_parse_names_what_a_pattern_found() -> None:
    events = [LogEvent(1, "stream", "user=ann took 3"), LogEvent(2, "stream", "nothing")]
    assert column(r"parse @message /user=(?<who>\w+)/ | filter ispresent(who) | fields who", *events) == ["ann"]


def test_a_comment_is_no_part_of_the_query() -> None:
    assert column("# first\nfields a # | limit 0\n# | filter a = 2\n", event(a=1)) == [1]


def test_the_names_of_a_query_are_the_fields_of_events_not_its_own() -> None:
    query = """filter ispresent(a.b) | parse @message /(?<made>x)/ | fields c + 1 as d, made
        | stats max(d) as e, e - min(`f-g`) as h by bin(1m) as t, i | filter e > 1 | sort h"""
    assert names(query) == {"a.b", "@message", "c", "f-g", "i"}
