"""What follows an answer: a shell command as the call of a tool, or as a person's. How far it is, in words."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from truemem_workbench.mcp.child import progress_words
from truemem_workbench.mcp.following import CHANGED, Call, Following, following
from truemem_workbench.mcp.tools import server
from truemem_workbench.printed.log_files import WITH_LINES
from truemem_workbench.support.typed_command import Command


def schemas(*, allow_changes: bool = False) -> Mapping[str, Any]:
    tools = anyio.run(server(allow_changes=allow_changes, commands=()).list_tools)
    return {each.name: each.input_schema for each in tools}


SCHEMAS = schemas()
APP: dict[str, Any] = {"target": "app.py:handler"}
CHECK, ACCOUNT = Call("check", APP), Call("report", {"function": "orders"})
LOG = Call("report", {"files": ["my logs/orders.log"]})
NEWER = "and a newer log is saved in place of the old one"
SOAK, SIZE, ATTACH = "truemem soak app.py:handler --for 10m", "truemem size orders", "truemem attach orders --lines"


def call(tool: str, when: str = "", missing: tuple[str, ...] = (), **arguments: Any) -> Following:
    return Following(Call(tool, arguments), when, missing)


STEPS: list[tuple[Call, str, Following]] = [
    (CHECK, "truemem check app.py:handler", call("check", CHANGED, **APP)),
    (
        Call("check", {"target": "main.go"}),
        "go build -o bootstrap . && truemem check main.go",
        Following(Call("check", {"target": "main.go"}), CHANGED, typed="go build -o bootstrap ."),
    ),
    (Call("explain", APP), "truemem check app.py:handler", call("check", **APP)),
    (
        Call("run", {**APP, "event": {"id": 7}}),
        "truemem check app.py:handler --event '{\"id\": 7}'",
        call("check", **APP, event={"id": 7}),
    ),
    (CHECK, "truemem check app.py:handler --try-repair", call("check", **APP, try_repair=True)),
    (CHECK, "truemem local run app.py:handler --event '{}' --raw", call("run", **APP, event={})),
    (CHECK, "truemem check app.py:handler --event @event.json", call("check", missing=("event",), **APP)),
    (CHECK, "truemem check app.py:handler --env MODEL=VALUE", call("check", missing=("env.MODEL",), **APP)),
    (Call("check", {**APP, "events": "e.jsonl"}), "truemem size app.py:handler", call("size", **APP, events="e.jsonl")),
    (CHECK, SOAK, Following(CHECK, "once that is done", typed=SOAK)),
    (LOG, "truemem lines orders", call("lines", function="orders", **LOG.arguments)),
    (
        LOG,
        "truemem report orders --since 7d",
        call("report", f"once it has run longer {NEWER}", function="orders", **LOG.arguments),
    ),
    (LOG, "truemem events orders --output e.jsonl", call("check", missing=("target", "events"))),
    (LOG, ATTACH, Following(LOG, f"once that is done {NEWER}", typed=ATTACH)),
    (LOG, WITH_LINES, Following(LOG, f"once that is done {NEWER}", typed=WITH_LINES)),
    (LOG, "truemem check FILE:HANDLER", call("check", missing=("target",))),
    (ACCOUNT, "truemem events orders --output e.jsonl", call("events", function="orders", output="e.jsonl")),
    (ACCOUNT, SIZE, Following(ACCOUNT, "once that is done", typed=SIZE)),
    (ACCOUNT, "truemem doctor orders --follow", call("doctor", "once it was invoked twice", function="orders")),
]


@pytest.mark.parametrize(("asked", "command", "step"), STEPS, ids=[each[1] for each in STEPS])
def test_command_is_a_call_or_a_persons(asked: Call, command: str, step: Following) -> None:
    assert following(command, asked, SCHEMAS) == step


def test_what_is_for_later_is_in_words_and_document() -> None:
    step = following("truemem check app.py:handler --try-repair", CHECK, SCHEMAS).at_the_end("it is well")
    given = {**APP, "try_repair": True}
    assert step.members() == {
        "done": "it is well",
        "nextCall": {"tool": "check", "arguments": given},
        "nextWhen": "if you want more",
    }
    assert step.lines(SCHEMAS) == ["Done: it is well", f"Next, if you want more: call check with {json.dumps(given)}"]
    typed = following(SOAK, CHECK, SCHEMAS).at_the_end("it is well")
    assert typed.members() == {"done": "it is well", "nextTyped": SOAK}
    assert typed.lines(SCHEMAS) == ["Done: it is well", f"Later, a person can type: {SOAK}"]


def test_attach_is_a_call_where_changes_are_allowed() -> None:
    step = following("truemem attach orders --lines", ACCOUNT, schemas(allow_changes=True))
    assert step == Following(Call("attach", {"functions": ["orders"], "lines": True}))


texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=20)
events = st.recursive(st.integers() | texts, lambda inner: st.dictionaries(texts, inner, max_size=3), max_leaves=5)


@given(texts, st.dictionaries(texts.filter(lambda name: "=" not in name), texts, max_size=3), st.lists(events))
def test_paths_variables_and_events_are_as_they_were(name: str, env: dict[str, str], event: list[Any]) -> None:
    target = f"/a b/{name}.py:handler"
    command = Command("check", (target,)).with_option("--memory", 512).with_option("--event", json.dumps(event))
    for variable, value in env.items():
        command = command.with_option("--env", f"{variable}={value}")
    made = following(str(command), ACCOUNT, SCHEMAS).call
    assert made is not None
    assert made.arguments == {"target": target, "event": event, "memory": 512, **({"env": env} if env else {})}


WRITTEN = {
    "": "starting, 12 s",
    "[": "starting, 12 s",
    "[7]": "starting, 12 s",
    '{"phase": "invoking", "done": "x"}': "starting, 12 s",
    '{"phase": "imports", "done": 0, "of": 0}': "imports, 12 s",
    '{"phase": "invoking", "done": 1200, "of": 4000, "seconds": 12.0}': "invoking, 1,200 of 4,000, 12 s",
}


@pytest.mark.parametrize("written", WRITTEN)
def test_progress_has_phase_count_and_seconds(written: str) -> None:
    assert progress_words(12.0, written) == WRITTEN[written]
