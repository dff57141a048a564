"""`truemem local run` at a terminal: its output, without ordinary lines, and its exit codes."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import re
import sys
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import click

from ..local.configuration.function import Function, missing_module
from ..local.configuration.layer import SIDECAR
from ..local.configuration.settings import REGION
from ..local.lifecycle.journal import LogLine
from ..local.scenario_context import NotAsDescribed, ScenarioContext
from ..local.scenarios import SCENARIOS
from ..local.session import Invocation, LocalLambda
from ..printed.line import parse_event
from ..runs.here import Run
from ..runs.passes import hopeless, in_a_pass
from ..support.exit_codes import NOTHING, Ended, raise_on_signals
from ..support.failed_answer import way_of
from ..support.terminal import counted, notify, steps
from ..support.untrusted_text import loads, visible
from .local_summary import Summary, short

_OF_PLATFORM = re.compile(
    r"(INIT_START|RESTORE_START|START|END|REPORT|INIT_REPORT|RESTORE_REPORT|EXTENSION|TELEMETRY)[ \t]"
)
_FAILED = re.compile(r"\tStatus: (?!success)|\tError Type: ")


def is_ordinary(line: LogLine) -> bool:
    """True for a line that says what the summary says, or that all is well. An error is never ordinary."""
    if line.source == f"extension:{SIDECAR}":
        return line.text.startswith("truemem INFO ") or bool(parse_event(line.text))
    if line.source != "platform":
        return False
    if line.text.startswith("{"):
        return _is_ordinary_event(line.text)
    return _OF_PLATFORM.match(line.text) is not None and _FAILED.search(line.text) is None


def _is_ordinary_event(text: str) -> bool:
    """Judge an event of the log format JSON."""
    try:
        record = loads(text).get("record")
    except (ValueError, AttributeError):
        return False
    return isinstance(record, dict) and record.get("status", "success") == "success" and "errorType" not in record


CREDENTIALS = "export AWS_ACCESS_KEY_ID=local AWS_SECRET_ACCESS_KEY=local"
SOURCES = {"function": "green", "platform": "cyan"}


class Few:
    """Which responses are printed of many: the first of each way to end, and the last two. Pure."""

    FIRST, LAST = 3, 2

    def __init__(self) -> None:
        self._ways: Counter[str] = Counter()
        self._printed: set[bytes] = set()
        self._held: deque[Invocation] = deque(maxlen=self.LAST)
        self._left: Counter[str] = Counter()
        self._are_same = True

    def prints(self, answer: Invocation) -> bool:
        """False if it is held back."""
        way = way_of(answer.error)
        self._ways[way] += 1
        if self._ways[way] <= self.FIRST:
            self._printed.add(answer.raw)
            return True
        self._left[way] += 1
        self._held.append(answer)
        self._are_same = self._are_same and answer.raw in self._printed
        return False

    def rest(self) -> tuple[str, list[Invocation]]:
        """What is said of those that were held back, and the last of them; empty if none was, or all were printed."""
        last = [] if self._are_same else [*self._held]
        held = self._left.total() - len(last)
        self._left -= Counter(way_of(each.error) for each in last)
        self._held.clear()
        if held <= 0:
            return "", last
        ways = [f"{count:,} failed with {way}" for way, count in self._left.items() if way]
        told = [*(["each the same as one above"] if self._are_same else []), *ways]
        return f"{counted(held, 'more response')}{''.join(f', {each}' for each in told)}", last


class Console:
    """Prints text, or with `as_json` one JSON object per line: `notice`, `log`, `response`, `serving`, `summary`."""

    def __init__(
        self,
        *,
        as_json: bool,
        quiet: bool = False,
        function: Function | None = None,
        scaled: bool = False,
        few: Few | None = None,
    ) -> None:
        """`quiet` leaves out the ordinary lines of the platform and the sidecar; not from JSON. `function`: what is
        run. `scaled`: each line has the name of its environment. `few`: chooses the responses that are printed."""
        self._few = None if as_json else few
        self._as_json = as_json
        self._quiet = quiet and not as_json
        self._target = function
        self._scaled = scaled
        self._notices: set[str] = set()
        self._missing: set[str] = set()
        self._lock = threading.Lock()  # log lines come from the server's thread
        self._closed = threading.Event()
        self._failure: OSError | None = None

    def notice(self, text: str) -> None:
        self._print({"notice": text}, click.style(f"note: {visible(text)}", fg="yellow"), error=True)

    def notices(self, local: LocalLambda) -> None:
        """Print what the machine does not permit, each once."""
        for notice in local.notices:
            if notice not in self._notices:
                self._notices.add(notice)
                self.notice(notice)

    def log(self, line: LogLine) -> None:
        if self._quiet and is_ordinary(line):
            return
        source = line.source.removeprefix("extension:")
        name = f"{short(line.environment)} " if self._scaled else ""
        shown = click.style(f"{name}{visible(source):>9} | ", fg=SOURCES.get(line.source, "magenta"))
        with contextlib.suppress(OSError):  # the environment must not depend on whether its output is read
            self._print({"log": dataclasses.asdict(line)}, shown + _indented(line.text))
            of_function = self._target if line.source == "function" else None
            missing = missing_module(line.text, of_function) if of_function else None
            if missing is not None and missing not in self._missing:
                self._missing.add(missing)
                self.notice(f"{missing}, or --python PATH of an interpreter that has it")

    def response(self, invocation: Invocation) -> None:
        if self._few is None or self._few.prints(invocation):
            self._respond(invocation)

    def last_responses(self) -> None:
        """Say how many responses were held back, and print the last of them."""
        said, last = ("", []) if self._few is None else self._few.rest()
        if said:
            self._print({}, click.style("      ... | ", bold=True) + f"{said}; --responses all prints each")
        for each in last:
            self._respond(each)

    def _respond(self, invocation: Invocation) -> None:
        text = _indented(invocation.raw.decode(errors="replace"))
        mark = click.style("   failed | " if invocation.function_error else " response | ", bold=True)
        body = {
            "requestId": invocation.request_id,
            "functionError": invocation.function_error,
            "payload": invocation.payload,
        }
        self._print({"response": body}, mark + text)

    def step(self, text: str) -> None:
        """Print a step of a scenario."""
        self._print({"step": text}, click.style(" scenario | ", fg="yellow") + visible(text))

    def ended(self, name: str, why: str | None) -> None:
        """Print the result of a scenario. `why` says what was not as described, or is None."""
        text = f"{name}: {why or 'went as described'}"
        self._print(
            {"scenario": {"name": name, "asDescribed": why is None, **({"why": why} if why else {})}},
            click.style(" scenario | ", fg="red" if why else "green") + visible(text),
        )

    def summary(self, summary: Summary, files: Sequence[Path]) -> None:
        from ..support.terminal import output

        terminal = output()
        with terminal.capture() as captured:
            summary.show(terminal, files)
        self._print({"summary": summary.document(files)}, captured.get().rstrip("\n"))

    def serving(self, local: LocalLambda, name: str) -> None:
        url = f"{local.endpoint}/2015-03-31/functions/{name}/invocations"
        client = f"boto3.client('lambda', endpoint_url='{local.endpoint}', region_name='{REGION}')"
        text = "\n".join(
            [
                f"serving {name} at {local.endpoint} (Ctrl-C ends it). Invoke it with any of:",
                f"  curl -d '{{}}' {url}",
                f"  aws lambda invoke --endpoint-url {local.endpoint} --region {REGION} --function-name {name} "
                "--payload '{}' --cli-binary-format raw-in-base64-out /dev/stdout",
                f"  {client}.invoke(FunctionName='{name}', Payload='{{}}')",
                f"Any other path is a Function URL, for browsers and load generators: {local.endpoint}/PATH",
                f"aws and boto3 need credentials, and any will do: {CREDENTIALS}",
            ]
        )
        self._print({"serving": {"endpoint": local.endpoint, "functionName": name, "url": url}}, text)

    def wait_until_closed(self) -> None:
        """Wait until a log line cannot be printed. Otherwise never return."""
        self._closed.wait()

    def check(self) -> None:
        """Raises OSError if something could not be printed."""
        if self._failure is not None:
            raise self._failure

    def _print(self, as_object: object, text: str, *, error: bool = False) -> None:
        with self._lock:
            try:
                if self._as_json:
                    click.echo(json.dumps(as_object))
                else:
                    click.echo(text, err=error)
                sys.stdout.flush()
            except OSError as failure:
                self._failure = failure
                self._closed.set()
                raise


def _indented(text: str) -> str:
    """Put its lines below each other. Python's runtime client joins several by carriage returns."""
    return ("\n" + " " * 12).join(map(visible, re.split("\r\n|[\r\n]", text)))


def invoke(
    run: Run,
    event: object,
    invocations: int,
    tenant_id: str | None,
    *,
    console: Console,
    finished: Callable[[str, bool], None],
) -> int:
    """Invoke with this event so many times, at once where it may be. Returns the exit code. Raises BadInput.

    It ends early after a signal, and where more invocations are hopeless. `finished` is called when the environment has
    ended, with a sentence why it ended early, empty if it did not, and whether a signal has cut it.
    """
    early, signal = "", 0
    raise_on_signals()
    try:
        with steps() as progress, run:
            console.notices(run.local)
            progress("invoking", 0, invocations)
            for made in _invoked(run, event, invocations, tenant_id, console):
                progress("invoking", made, invocations)
                if made < invocations and (why := hopeless(run.errors, [""] * made)):
                    early = f"It stopped after {made} of {invocations} invocations: {why}."
                    break
            run.local.settle()
            run.local.stop()
    except Ended as ended:
        signal, made = ended.number, len(run.answers)
        early = f"It was ended early, in invocation {made + 1} of {invocations}." if made < invocations else ""
    if run.answers:
        console.last_responses()
        finished(early, bool(signal))
    elif signal:
        notify("truemem local run", NOTHING)
    if signal:
        return 128 + signal
    # an extension may be over the deadline after a good answer
    late = run.settings.managed_instances is None and any(each.status != "success" for each in run.local.reports)
    return int(late or any(answer.error for answer in run.answers))


def _invoked(run: Run, event: object, invocations: int, tenant_id: str | None, console: Console) -> Iterator[int]:
    """Make the invocations, and say after each how many were made."""
    if run.at_once is not None:
        for made, answer in enumerate(run.invoke_at_once(event, invocations, tenant_id=tenant_id), 1):
            console.response(answer)
            yield made
        return
    run.begin_passes(in_a_pass(invocations))
    for made in range(1, invocations + 1):
        run.invoke(event, tenant_id=tenant_id, timeout=None, on_answer=console.response)
        run.local.settle()
        yield made


def serve(run: Run, console: Console) -> int:
    """Serve the Invoke API until a signal comes. Returns the exit code. Raises BadInput."""
    raise_on_signals()
    with contextlib.suppress(Ended), run:
        console.notices(run.local)
        console.serving(run.local, run.settings.name)
        console.wait_until_closed()
    return 0


def play(
    name: str, run: Run, event: object, tenant_id: str | None, *, gap_s: float, grows: bool, console: Console
) -> int:
    """Play a scenario. Returns the exit code: 0 if it went as described. Raises BadInput."""
    scenario, local = SCENARIOS[name], run.local
    context = ScenarioContext(local, run.settings, console, event=event, tenant_id=tenant_id, gap_s=gap_s, grows=grows)
    if scenario.held_in_init:
        context.hold_next_init()
    raise_on_signals()
    console.step(scenario.description)
    why: str | None = None
    try:
        with run:
            console.notices(local)
            if not scenario.held_in_init:
                local.settle()
            try:
                scenario.play(context)
            except NotAsDescribed as failure:
                why = str(failure)
    except Ended as ended:
        return 128 + ended.number
    console.ended(name, why)
    return 1 if why else 0
