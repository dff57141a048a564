"""`truemem mcp` before the SDK's own client: what it offers, refuses, shows first, and ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import psutil
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolResult
from truemem_workbench.commands.__main__ import cli
from truemem_workbench.mcp.answer import MOST_DOCUMENT, MOST_TEXT, bounded, text_of

from tests.mcp.conftest import TRUEMEM, Asked, converse, serving, told
from tests.report.conftest import put_function
from tests.report.written import life, log

FUNCTIONS = Path(__file__).with_name("functions")
READ_ONLY = {"triage", "doctor", "report", "lines", "queries"}
RUN_CODE = {"run", "check", "explain", "size"}
WRITES = {"events"}
CHANGE = {"attach", "detach"}


async def tools(client: Client) -> dict[str, Any]:
    return {tool.name: tool for tool in (await client.list_tools()).tools}


def test_nothing_that_changes_an_account_without_the_flag(asked: Asked) -> None:
    assert set(converse(tools)) == READ_ONLY | WRITES | RUN_CODE
    refused = asked("attach", {"functions": ["orders"], "apply": True})
    assert refused.is_error
    assert "attach" in refused.text


def test_tools_say_what_they_do() -> None:
    offered = converse(tools, "--allow-changes")
    assert set(offered) == READ_ONLY | WRITES | RUN_CODE | CHANGE
    assert {name for name, tool in offered.items() if tool.annotations.read_only_hint} == READ_ONLY
    assert {name for name, tool in offered.items() if tool.annotations.destructive_hint} == RUN_CODE | CHANGE
    for name, tool in offered.items():
        assert ("RUNS THE HANDLER'S CODE" in tool.description) == (name in RUN_CODE)
        assert ("CHANGES THE ACCOUNT" in tool.description) == (name in CHANGE)
        assert len(tool.description) <= 300
        for parameter in tool.input_schema["properties"].values():
            assert 0 < len(parameter["description"]) <= 100
    assert len(json.dumps([tool.input_schema for tool in offered.values()])) < 12_000


def test_plan_comes_first_and_apply_carries_it_out(
    aws: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    put_function(aws, "orders")

    def layers() -> list[Any]:
        found: list[Any] = aws("lambda").get_function_configuration(FunctionName="orders").get("Layers", [])
        return found

    async def about(client: Client) -> None:
        plan = told(await client.call_tool("attach", {"functions": ["orders"], "lines": True}))
        assert plan.text.startswith("Nothing is changed yet. The plan:")
        assert "+ layer arn:" in plan.text and "+ TRUEMEM_LINES=10%" in plan.text
        assert plan.document["applied"] is False
        assert layers() == []

        done = told(await client.call_tool("attach", {"functions": ["orders"], "lines": True, "apply": True}))
        assert done.text == ('orders: done\nNext, once it was invoked twice: call doctor with {"function": "orders"}')
        assert done.document["applied"] is True
        assert len(layers()) == 1

        plan = told(await client.call_tool("detach", {"functions": ["orders"]}))
        assert "- layer arn:" in plan.text
        assert len(layers()) == 1
        assert told(await client.call_tool("detach", {"functions": ["orders"], "apply": True})).text == "orders: done"
        assert layers() == []

    converse(about, "--allow-changes")


HOSTILE: list[tuple[str, dict[str, Any], str]] = [
    ("report", {"files": ["/nonexistent/orders.log"]}, "there is no file /nonexistent/orders.log"),
    ("report", {"files": ["--help"]}, "there is no file --help"),
    ("report", {"files": ["-"]}, "there is no file -"),
    ("report", {"files": ["/tmp"]}, "/tmp is a folder: name a file in it"),
    ("report", {"files": "orders.log"}, 'files must be a list of texts, and is a text ("orders.log"). Give ["orders.'),
    ("report", {"file": ["orders.log"]}, "report has no argument file. Try files"),
    ("report", {"files": ["orders.log"]}, f"there is no file orders.log in {Path.cwd()}, where this server runs"),
    ("report", {"files": []}, "report needs function, the name of one in AWS, or files, its logs"),
    ("chek", {}, "there is no tool chek. Try check"),
    ("bisect", {}, "truemem bisect is typed by a person"),
    ("check", {}, "check needs target: /path/app.py:handler"),
    (
        "check",
        {"target": "a.py:handler", "invocations": "many"},
        'invocations must be a whole number, and is a text ("',
    ),
    ("check", {"target": "a.py:handler", "invocations": 0}, "invocations must be 1 or more, and is 0"),
    ("check", {"target": "a.py:handler", "env": {"A": 7}}, 'a whole number (7) is in it. Give {"NAME": "value"}'),
    ("events", {"function": "orders"}, "events needs output"),
    ("report", {"files": ["a\nb"]}, "there is no file a\\nb"),
    ("report", {"files": ["a\0b"]}, "no file a"),
    ("report", {"files": ["x" * 200_000]}, "files"),
    ("report", {"function": "--output=/tmp/x", "files": ["/nonexistent/orders.log"]}, "/nonexistent/orders.log"),
    ("lines", {"files": [__file__], "since": "\n--help"}, "is no time"),
    ("check", {"target": "--version"}, "--version"),
    ("check", {"target": "/nonexistent/app.py:handler"}, "/nonexistent/app.py"),
    ("check", {"target": "/nonexistent/app.py:handler", "event": "{"}, "event"),
    ("explain", {"target": ""}, "explain needs target"),
    ("size", {"target": "a\n--function=orders"}, "a\\n--function=orders"),
    ("queries", {"name": "../../etc/passwd"}, "no query is called"),
    ("report", {"files": 7}, "files"),
    ("check", {"target": "my-function"}, "no file my-function"),  # the command would invoke that in AWS
    ("size", {"target": "my-function"}, "no file my-function"),
    ("check", {"target": f"{FUNCTIONS}/keeps.py:none"}, "no function `none` in"),
    ("check", {"target": ":handler"}, "target: there is no file"),
    ("check", {"target": "/tmp"}, "/tmp is a folder: name a file in it"),
    ("size", {"target": "a.py:handler", "sizes": "128,256"}, 'is a text ("128,256"). Give [128, 256]'),
    ("size", {"target": "a.py:handler", "sizes": "128"}, 'is a text ("128"). Give [128]'),
    (
        "check",
        {"target": "a.py:handler", "env": ["A=1"]},
        'must be an object: names, each with a text, and is a list. Give {"A": "1"}',
    ),
    ("check", {"target": f"{FUNCTIONS}/keeps.py:handler", "timeout": 0}, "timeout 0: it must be above 0, at most "),
    (
        "check",
        {"target": f"{FUNCTIONS}/keeps.py:handler", "extensions": "/none"},
        "extensions: there is no folder /none",
    ),
    ("check", {"target": "/nonexistent/app.jar:com.App::handle"}, "there is no file /nonexistent/app.jar"),
    ("no such tool", {}, "no such tool"),
]


def test_hostile_input_is_an_error_and_the_server_goes_on(tmp_path: Path) -> None:
    empty = tmp_path / "empty.log"
    empty.touch()

    async def about(client: Client) -> None:
        for tool, arguments, said in [*HOSTILE, ("report", {"files": [str(empty)]}, "no line of the sidecar")]:
            answer = told(await client.call_tool(tool, arguments))
            assert answer.is_error, (tool, arguments, answer)
            assert said in answer.text, (tool, arguments, answer)
            assert len(answer.text) <= MOST_TEXT
            assert "pydantic" not in answer.text
        assert not told(await client.call_tool("queries", {})).is_error

    converse(about)


def test_two_calls_at_once(tmp_path: Path) -> None:
    """The first waits for its log, which is a pipe, until the second has its answer."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    whole = log(tmp_path, life())

    async def about(client: Client) -> None:
        answers: list[CallToolResult] = []

        async def waiting() -> None:
            answers.append(await client.call_tool("report", {"files": [str(pipe)]}))

        async with anyio.create_task_group() as group:
            group.start_soon(waiting)
            second = told(await client.call_tool("report", {"files": [str(whole)]}))
            assert not second.is_error
            assert answers == []
            await anyio.to_thread.run_sync(pipe.write_bytes, whole.read_bytes())
        assert told(answers[0]).text == second.text

    converse(about)


@pytest.fixture
def pipe() -> Iterator[Path]:
    """A pipe that the user of the local Lambda may write to."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        path = Path(folder) / "pipe"
        os.mkfifo(path)
        path.chmod(0o666)
        yield path


def running(pipe: Path) -> list[psutil.Process]:
    """Wait for the handler, then: the server, and all processes below it."""
    function = psutil.Process(int(pipe.read_text()))
    (server,) = [each for each in function.parents() if each.ppid() == os.getpid()]
    below = server.children(recursive=True)
    assert function in below
    return [server, *below]


async def checking(client: Client, pipe: Path, note: Any = None) -> None:
    """Begin a check that does not end by itself. If it ends, that is said in the pipe."""
    arguments = {"target": f"{FUNCTIONS / 'waits.py'}:handler", "env": {"PIPE": str(pipe)}}
    pipe.write_text(told(await client.call_tool("check", arguments, progress_callback=note)).text)


@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_cancelled_check_leaves_no_process(pipe: Path, mode: str) -> None:
    notes: list[tuple[float, float | None, str]] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        notes.append((progress, total, message or ""))

    async def about(client: Client) -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(checking, client, pipe, note)
            _, *begun = await anyio.to_thread.run_sync(running, pipe)
            group.cancel_scope.cancel()
        _, alive = await anyio.to_thread.run_sync(lambda: psutil.wait_procs(begun, timeout=60))
        assert alive == []
        assert notes[0][2].startswith("check: starting")
        assert [each[0] for each in notes] == sorted({each[0] for each in notes})
        assert not told(await client.call_tool("queries", {})).is_error

    converse(about, mode=mode)


def test_assistant_that_leaves_ends_its_check(pipe: Path) -> None:
    begun: list[psutil.Process] = []

    async def session() -> None:
        async with serving() as client, anyio.create_task_group() as group:
            group.start_soon(checking, client, pipe)
            begun.extend(await anyio.to_thread.run_sync(running, pipe))
            group.cancel_scope.cancel()

    anyio.run(session)
    _, alive = psutil.wait_procs(begun, timeout=60)
    assert alive == []


def test_an_answer_that_nobody_takes_is_no_error() -> None:
    asked = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}}
    request = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": asked})
    with subprocess.Popen(
        [TRUEMEM, "mcp"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as server:
        assert server.stdin is not None and server.stdout is not None and server.stderr is not None
        server.stdout.close()
        server.stdin.write(f"{request}\n")
        server.stdin.close()
        assert server.stderr.read() == ""
        assert server.wait() == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_signal_ends_server_and_check(pipe: Path, number: int) -> None:
    begun: list[psutil.Process] = []

    async def session() -> None:
        async with serving() as client, anyio.create_task_group() as group:
            group.start_soon(checking, client, pipe)
            begun.extend(await anyio.to_thread.run_sync(running, pipe))
            begun[0].send_signal(number)

    with pytest.raises(ExceptionGroup) as broken:
        anyio.run(session)
    assert broken.group_contains(MCPError, match="Connection closed")
    _, alive = psutil.wait_procs(begun, timeout=60)  # outside of the group, which would hide what is asserted
    assert alive == []


def test_without_the_package_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("truemem_workbench.support.bad_input.find_spec", lambda name: None)
    result = CliRunner().invoke(cli, ["mcp"], standalone_mode=False)
    assert result.return_value == 2
    assert result.stderr == "truemem mcp: mcp is not installed. Try pip install 'truemem[mcp]'\n"


def test_every_query_of_the_page_is_there(asked: Asked) -> None:
    told_all = asked("queries", {})
    names = told_all.document["names"]
    assert len(names) >= 15
    *told_each, last = told_all.text.splitlines()
    assert last == "Next: call queries with {}, and give name (Name of one query; leave it out for all of them)"
    assert told_all.document["nextMissing"] == ["name"]
    purposes = [each.partition(": ")[2] for each in told_each]
    assert len(set(purposes)) == len(names)
    assert "stats max(CurrentRSS)" in asked("queries", {"name": "the-one-plot"}).text


QUESTIONS = {
    "RequestId: 1 Error: Runtime exited with error: signal: killed Runtime.ExitError": "platform-out-of-memory",
    "Task timed out after 3.00 seconds": "failed",
    "Is it a leak?": "the-one-plot",
    "Which memory size should I take?": "right-size",
    "Does it grow?": "drift",
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_question_or_error_finds_its_query(asked: Asked, question: str) -> None:
    answer = asked("queries", {"question": question})
    assert answer.document["name"] == QUESTIONS[question]
    assert answer.document["query"] in answer.text
    assert answer.text.endswith(f"A person must type: {answer.document['nextTyped']}")


documents = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=50),
    lambda inner: st.lists(inner, max_size=50) | st.dictionaries(st.text(max_size=20), inner, max_size=10),
)


@given(st.dictionaries(st.text(max_size=20), documents, max_size=8), st.integers(1, 400))
def test_document_is_bounded_and_says_what_is_cut(document: dict[str, Any], times: int) -> None:
    large = {**document, "many": [document] * times, "long": "x" * times * 100}
    made = bounded(large, "truemem report --json")
    assert len(json.dumps(made)) <= MOST_DOCUMENT
    assert made == large or made["cut"]["all"] == "truemem report --json"


@given(st.lists(st.text(max_size=300), max_size=200), st.text(max_size=100))
def test_text_is_bounded_and_ends_with_the_next_command(lines: list[str], following: str) -> None:
    text = text_of(lines, [], [f"Next: {following}"] if following else [], "truemem report --json")
    assert len(text) <= MOST_TEXT + 400
    assert not following or text.splitlines()[-1].startswith("Next: ")
    assert "Cut: " in text or len(text.splitlines()) <= len(lines) + 1
