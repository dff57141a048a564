"""The wrapper that starts the runtime through the sidecar, compiled and as a script: real processes, real sockets."""

import functools
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.layer import meeting
from tests.layer.built import ROOT, Layer, script

API = "127.0.0.1:9001"
OURS = f"\0truemem/exact/{API}/43211"
OTHER = "\0truemem/exact/127.0.0.1:9999/5555"

THROUGH = "127.0.0.1:43211"
"""The Runtime API's address, where the runtime is started through the sidecar."""

OFF = "truemem INFO exact mode is off: {}; the runtime starts as it is\n"
NOT_FOUND = OFF.format("no sidecar listens here")
REFUSED = OFF.format("the sidecar takes no message")
ELSEWHERE = OFF.format("no sidecar listens for this address")

RUNTIME = (sys.executable, "-S", "-c", meeting.SHOW)
PLAIN = {"PATH": f"{Path(sys.executable).parent}:{os.defpath}", "LANG": "C.UTF-8", "HOME": "/nowhere"}


@dataclass(frozen=True)
class Outcome:
    code: int
    stdout: str
    stderr: str
    received: dict[str, list[tuple[int, str]]]
    """What each sidecar was told: pid and text."""
    shown: dict[str, Any] | None
    """How the runtime found itself started; None: it was not."""

    @property
    def arguments(self) -> list[str]:
        """The runtime's, without those that make it a runtime."""
        assert self.shown is not None, self.stderr
        return list(self.shown["arguments"])

    @property
    def variables(self) -> dict[str, str]:
        """The runtime's, without ours."""
        assert self.shown is not None, self.stderr
        found = dict(entry.split("=", 1) for entry in self.shown["environ"])
        assert len(found) == len(self.shown["environ"])
        return {name: value for name, value in found.items() if name != "SHOWN"}

    @property
    def api(self) -> str | None:
        """The Runtime API's address, as the runtime sees it."""
        return self.variables.get("AWS_LAMBDA_RUNTIME_API")

    @property
    def told(self) -> list[tuple[str, str]]:
        """Each sidecar that was told something, and what."""
        return [(name, text) for name, sent in self.received.items() for _, text in sent if text != "filler"]


Start = Callable[..., Outcome]
Meeting = tuple[Sequence[str | Path], Mapping[str, str], Mapping[str, str]]
"""A command, sidecars' sockets with their kinds, and variables."""
NAMESPACE = ("unshare", "--map-root-user", "--net")


@functools.cache
def namespace_made() -> bool:
    return subprocess.run([*NAMESPACE, "true"], capture_output=True, check=False).returncode == 0


def in_networks(meetings: Sequence[Meeting]) -> list[Outcome]:
    """Run each of the commands where nothing listens but its sidecars."""
    if not namespace_made():
        pytest.skip(f"no network namespace can be made here ({' '.join(NAMESPACE)})")
    given = [
        {"command": [*map(str, command)], "names": names, "environment": variables}
        for command, names, variables in meetings
    ]
    command = [*NAMESPACE, sys.executable, meeting.__file__]
    done = subprocess.run(command, input=json.dumps(given), capture_output=True, text=True, check=True)
    outcomes = json.loads(done.stdout)
    for made in outcomes:
        made["received"] = {name: [(pid, text) for pid, text in each] for name, each in made["received"].items()}
    return [Outcome(**made) for made in outcomes]


def in_own_network(
    command: Sequence[str | Path], names: Mapping[str, str], environment: Mapping[str, str] | None = None
) -> Outcome:
    variables = {**PLAIN, "AWS_LAMBDA_RUNTIME_API": API} if environment is None else environment
    (outcome,) = in_networks([(command, names, variables)])
    return outcome


@pytest.fixture(params=["layer", pytest.param("source", marks=pytest.mark.nightly)])
def exact(request: pytest.FixtureRequest) -> Path:
    """The wrapper, compiled and as a script."""
    if request.param == "source":
        return ROOT / "extension" / "truemem" / "exact"
    layer: Layer = request.getfixturevalue("native")
    return layer.wrapper


def meets(exact: Path, *names: str | tuple[str, str], arguments: Sequence[str] = (), **more: str) -> Meeting:
    """The runtime is started by the wrapper. `names`: each a sidecar's socket, or with its kind."""
    kinds = dict((name, "datagram") if isinstance(name, str) else name for name in names)
    return [exact, *RUNTIME, *arguments], kinds, {**PLAIN, "AWS_LAMBDA_RUNTIME_API": API, **more}


@pytest.fixture
def start(exact: Path) -> Start:
    return lambda *names, **more: in_networks([meets(exact, *names, **more)])[0]


# --- meeting the sidecar ----------------------------------------------------------------------------------------------


def test_the_runtime_starts_through_the_sidecar(start: Start) -> None:
    outcome = start(OURS, arguments=["bootstrap.py", "", "two words"], TRUEMEM_ENABLED="true")
    assert (outcome.code, outcome.stdout, outcome.stderr) == (0, "", "")
    assert outcome.api == THROUGH
    assert outcome.arguments == ["bootstrap.py", "", "two words"]
    assert outcome.variables == {**PLAIN, "AWS_LAMBDA_RUNTIME_API": THROUGH, "TRUEMEM_ENABLED": "true"}
    assert outcome.shown is not None
    assert outcome.received == {OURS: [(outcome.shown["pid"], API)]}  # it learns address and pid


def test_where_nothing_listens_the_runtime_starts_as_it_is(start: Start) -> None:
    outcome = start("\0something/else", "\0truemem/exact", arguments=["bootstrap.py"])
    assert outcome.stderr == NOT_FOUND
    assert outcome.arguments == ["bootstrap.py"]
    assert outcome.variables == {**PLAIN, "AWS_LAMBDA_RUNTIME_API": API}
    assert outcome.told == []


BEHIND = {"TRUEMEM_EXEC_PROGRAM": "python3"}
"""Set where another wrapper has run first."""
HOSTILE = (
    *("\0" + "x" * 107, "\0" + "/" * 107, "\0" + "\xff" * 107, "\0truemem/exact/" + "9" * 93, "\0 a b  c ", "\0"),
    *("\0\0truemem/exact/a/1", "\0truemem/exact/a\0/1\0", "\0@truemem/exact/a/2", "\0x @truemem/exact/a/3", "\0\n\n"),
    *("\0\r\x0b\x0c\t@truemem/exact/a/4", "\0%s%n%d\\\"'$(id)`id`"),
)
FORGED = f"\0\n0: 2 0 0 2 1 7 @truemem/exact/{API}/666"
"""The kernel prints it as it is: a line without a listener behind it."""
MANY = [f"\0{'n' * (number % 100)}{number}" for number in range(900)]
NO_PORTS = ("", "0", "65536", "080", "43211x", "+1", "\xb2")
ADDRESSES = ("localhost:3000", "127.0.0.1:900", "127.0.0.1:90011", "", "x" * 5000)


def at(port: str) -> str:
    return f"\0truemem/exact/{API}/{port}"


Met = tuple[Sequence[Any], dict[str, str], str, str, list[tuple[str, str]]]
"""Sidecars' sockets, the runtime's variables; the address that the runtime then has, what is said, who is told what."""


def behind_one_that_sets(address: str) -> Met:
    return [OURS], {"AWS_LAMBDA_RUNTIME_API": address, **BEHIND}, THROUGH, "", [(OURS, address)]


MEETINGS: dict[str, Met] = {
    "another environment's sidecar, ours": ([OTHER, OURS], {}, THROUGH, "", [(OURS, API)]),
    "ours, another environment's": ([OURS, OTHER], {}, THROUGH, "", [(OURS, API)]),
    "only another's": ([OTHER], {}, API, ELSEWHERE, []),
    "two of others": ([OTHER, "\0truemem/exact/127.0.0.1:9998/4444"], {}, API, ELSEWHERE, []),
    "behind a wrapper, two of others": ([OTHER, "\0truemem/exact/127.0.0.1:9998/4444"], BEHIND, API, ELSEWHERE, []),
    **{f"behind a wrapper that has set {address[:20]}": behind_one_that_sets(address) for address in ADDRESSES},
    "its queue is full": ([(OURS, "full")], {}, API, REFUSED, []),
    "it takes connections": ([(OURS, "stream")], {}, API, REFUSED, []),
    "behind a wrapper, its queue is full": ([(OTHER, "full")], BEHIND, API, REFUSED, []),
    "behind a wrapper, it takes connections": ([(OTHER, "stream")], BEHIND, API, REFUSED, []),
    "another's is not the next best to a full one": ([(OURS, "full"), OTHER], {}, API, REFUSED, []),
    "another's is not the next best to a stream": ([(OURS, "stream"), OTHER], {}, API, REFUSED, []),
    **{f"{port!r} is no port": ([at(port)], {}, API, NOT_FOUND, []) for port in NO_PORTS},
    **{f"{port} is one": ([at(port)], {}, f"127.0.0.1:{port}", "", [(at(port), API)]) for port in ("1", "65535")},
    "strange names, ours": ([*HOSTILE, OURS], {}, THROUGH, "", [(OURS, API)]),
    "strange names": (HOSTILE, {}, API, NOT_FOUND, []),
    "a forged line, ours": ([FORGED, OURS], {}, THROUGH, "", [(OURS, API)]),
    "a forged line": ([FORGED], {}, API, REFUSED, []),
    "ours among many": ([*MANY[:450], OURS, *MANY[450:]], {}, THROUGH, "", [(OURS, API)]),
    "no next wrapper": ([OURS], {"TRUEMEM_EXEC_WRAPPER": ""}, THROUGH, "", [(OURS, API)]),
}


def test_the_sidecar_of_its_own_address_is_found_and_told_it(exact: Path) -> None:
    outcomes = in_networks([meets(exact, *names, **variables) for names, variables, *_ in MEETINGS.values()])
    found = [(outcome.api, outcome.stderr, outcome.told) for outcome in outcomes]
    assert dict(zip(MEETINGS, found, strict=True)) == {name: tuple(met[2:]) for name, met in MEETINGS.items()}


def test_started_twice_it_does_not_connect_the_sidecar_to_itself(exact: Path) -> None:
    """As an image's entry point, and once more as the wrapper of the base image's bootstrap."""
    outcome = in_own_network([exact, exact, *RUNTIME], {OURS: "datagram"})
    assert (outcome.api, outcome.stderr) == (THROUGH, "")
    assert outcome.told == [(OURS, API)]


def test_without_an_address_the_runtime_starts_as_it_is(exact: Path) -> None:
    outcome = in_own_network([exact, *RUNTIME], {OURS: "datagram"}, PLAIN)
    assert outcome.stderr == OFF.format("AWS_LAMBDA_RUNTIME_API is not set")
    assert (outcome.variables, outcome.told) == (PLAIN, [])


# --- the runtime is started as it would have been ---------------------------------------------------------------------


@pytest.mark.parametrize("way", ["through the sidecar", "as it is", "behind a vendor's wrapper"])
def test_long_argument_lists_and_environments_pass_through(start: Start, tmp_path: Path, way: str) -> None:
    arguments = ["a" * 100_000, *map(str, range(20_000))]
    variables = {f"V{number}": "v" * number for number in range(1000)}
    more = {"TRUEMEM_EXEC_WRAPPER": vendor(tmp_path, 'exec "$@"')} if "vendor" in way else {}
    outcome = start(*([] if way == "as it is" else [OURS]), arguments=arguments, **variables, **more)
    assert outcome.arguments == arguments
    assert outcome.variables.items() >= variables.items()


def test_bytes_that_are_no_text_pass_through(start: Start) -> None:
    outcome = start(OURS, arguments=["\xff\xfe", "\xe4 \n"], BYTES="\xff=\xfe\n", EMPTY="")
    assert outcome.arguments == ["\xff\xfe", "\xe4 \n"]
    assert (outcome.variables["BYTES"], outcome.variables["EMPTY"]) == ("\xff=\xfe\n", "")


def test_no_locale_is_no_locale_for_the_runtime(exact: Path) -> None:
    outcome = in_own_network([exact, *RUNTIME], {}, {"AWS_LAMBDA_RUNTIME_API": API, "PATH": PLAIN["PATH"]})
    assert outcome.variables == {"AWS_LAMBDA_RUNTIME_API": API, "PATH": PLAIN["PATH"]}


def test_a_variable_that_is_there_twice_is_replaced_twice(native: Layer) -> None:
    """A C library reads the first, a shell the last. (The script has a dict, without duplicates.)"""
    code = (
        "import ctypes, sys; libc = ctypes.CDLL(None); "
        "entries = [b'AWS_LAMBDA_RUNTIME_API=a:1', b'A=b', "
        "b'AWS_LAMBDA_RUNTIME_API=b:2', b'AWS_LAMBDA_RUNTIME_APIS=c', b'TRUEMEM_EXEC_PROGRAM=x']; "
        "text = lambda all: (ctypes.c_char_p * (len(all) + 1))(*all); "
        "libc.execve(sys.argv[1].encode(), text([b'exact', b'/usr/bin/env']), text(entries))"
    )
    outcome = in_own_network([sys.executable, "-c", code, native.wrapper], {OURS: "datagram"})
    assert outcome.stdout.splitlines() == [
        *("AWS_LAMBDA_RUNTIME_API=127.0.0.1:43211", "A=b", "AWS_LAMBDA_RUNTIME_API=127.0.0.1:43211"),
        "AWS_LAMBDA_RUNTIME_APIS=c",
    ]
    assert outcome.told == [(OURS, "a:1")]


@pytest.mark.parametrize("closed", ["2>&-", "<&- >&- 2>&-"])
def test_standard_descriptors_stay_as_they_are(exact: Path, closed: str) -> None:
    line = shlex.join(map(str, RUNTIME))
    for names in ({OURS: "datagram"}, {OURS: "full"}, {}):
        there, without = (
            in_own_network(["sh", "-c", f"exec {start} {line} {closed}"], names) for start in (exact, "env")
        )
        assert there.shown is not None
        assert without.shown is not None
        assert there.shown["descriptors"] == without.shown["descriptors"]
        assert ("exact mode is off" in there.stderr) == (names != {OURS: "datagram"} and "2>&-" not in closed)


def test_signals_are_handled_as_before(exact: Path) -> None:
    ignored = ["grep", "SigIgn", "/proc/self/status"]
    for names in ({OURS: "datagram"}, {}):
        assert in_own_network([exact, *ignored], names).stdout == in_own_network(ignored, names).stdout != ""


def test_a_log_that_is_not_read_any_more_does_not_end_it(exact: Path) -> None:
    """A write to it is SIGPIPE, which ends a process that does not ignore it."""
    code = (
        "import os, signal, sys; signal.signal(signal.SIGPIPE, signal.SIG_DFL); "
        "end, pipe = os.pipe(); os.close(end); os.dup2(pipe, 2); os.execv(sys.argv[1], sys.argv[1:])"
    )
    outcome = in_own_network([sys.executable, "-c", code, exact, *RUNTIME], {})
    assert (outcome.code, outcome.api) == (0, API)


# --- what is to be started --------------------------------------------------------------------------------------------


def test_a_bare_name_is_searched_for(exact: Path, tmp_path: Path) -> None:
    """As a shell does with `exec "$@"`."""
    bootstrap = script(tmp_path, f'exec {shlex.join(map(str, RUNTIME))} "$0" "$@"', "bootstrap")
    environment = {**PLAIN, "PATH": f"/nowhere:{tmp_path}:{PLAIN['PATH']}", "AWS_LAMBDA_RUNTIME_API": API}
    outcome = in_own_network([exact, "bootstrap", "handler"], {OURS: "datagram"}, environment)
    assert (outcome.api, outcome.arguments) == (THROUGH, [str(bootstrap), "handler"])


@pytest.mark.parametrize(
    ("program", "code", "why"),
    [
        ("no-such-program", 127, "No such file or directory"),
        ("./nowhere/bootstrap", 127, "No such file or directory"),
        ("-x", 127, "No such file or directory"),
        ("/", 126, "Permission denied"),
        ("/etc/passwd", 126, "Permission denied"),
        ("/etc/passwd/bootstrap", 126, "Not a directory"),
    ],
)
def test_what_cannot_be_started_is_told_as_a_shell_tells_it(exact: Path, program: str, code: int, why: str) -> None:
    outcome = in_own_network([exact, program, "handler"], {})
    assert outcome.code == code
    assert outcome.stderr == f"{NOT_FOUND}truemem ERROR the program to start: {why}\n"


def test_a_program_of_another_machine_is_told(exact: Path, tmp_path: Path) -> None:
    (tmp_path / "bootstrap").write_bytes(b"\x7fELF\0")
    (tmp_path / "bootstrap").chmod(0o755)
    outcome = in_own_network([exact, tmp_path / "bootstrap"], {})
    assert (outcome.code, outcome.stderr.splitlines()[-1].partition(": ")[2]) == (126, "Exec format error")


def test_started_with_nothing_it_says_how(exact: Path) -> None:
    outcome = in_own_network([exact], {OURS: "datagram"})
    assert (outcome.code, outcome.stderr, outcome.told) == (2, "truemem ERROR usage: exact PROGRAM [ARGUMENT...]\n", [])


# --- another vendor's wrapper -----------------------------------------------------------------------------------------


VENDORS: dict[str, tuple[str, list[str], str, dict[str, str]]] = {
    "as it is": ('exec "$@"', [], API, {}),
    "appends": ('exec "$@" --appended', ["--appended"], API, {}),
    "sets variables": ('export VENDOR=1\nexec "$@"', [], API, {"VENDOR": "1"}),
    "is not the last process": ('"$@"', [], API, {}),
    "sets the address": ('export AWS_LAMBDA_RUNTIME_API=127.0.0.1:9009\nexec "$@"', [], "127.0.0.1:9009", {}),
    "inserts a launcher": ('exec "$1" env LAUNCHED=1 "${@:2}"', [], API, {"LAUNCHED": "1"}),
}


def vendor(folder: Path, lines: str) -> str:
    """A wrapper as vendors' layers have them, of these lines."""
    return str(script(folder, lines, "vendor_wrapper", "bash"))


@pytest.mark.parametrize("kind", VENDORS)
def test_a_vendors_wrapper_runs_first_and_ours_behind_it(start: Start, tmp_path: Path, kind: str) -> None:
    lines, added, address, variables = VENDORS[kind]
    wrapper = vendor(tmp_path, f"echo vendor\n{lines}")
    outcome = start(OURS, arguments=["bootstrap.py"], TRUEMEM_EXEC_WRAPPER=wrapper)
    assert (outcome.stdout, outcome.stderr) == ("vendor\n", "")
    assert (outcome.api, outcome.arguments) == (THROUGH, ["bootstrap.py", *added])
    assert outcome.shown is not None
    assert outcome.received == {OURS: [(outcome.shown["pid"], address)]}
    assert outcome.variables.items() >= variables.items()
    assert not [name for name in outcome.variables if name.startswith("TRUEMEM_")]


@pytest.mark.parametrize("options", ["-B", "-X importtime", "-X dev -W /bin/true"])
def test_options_of_a_vendors_wrapper_go_to_the_runtime(start: Start, tmp_path: Path, options: str) -> None:
    """As in AWS's example: behind the first of its arguments, which is us. Nor is an option's own value the program."""
    wrapper = vendor(tmp_path, f'args=("$@")\nexec "${{args[0]}}" {options} "${{args[@]:1}}"')
    outcome = start(OURS, arguments=["bootstrap.py"], TRUEMEM_EXEC_WRAPPER=wrapper)
    words = len(options.split())
    assert outcome.api == THROUGH
    assert outcome.arguments[words:] == ["bootstrap.py"]


@pytest.mark.parametrize(
    ("wrapper", "why"), [("/opt/nowhere", "No such file or directory"), ("/", "Permission denied")]
)
def test_a_vendors_wrapper_that_cannot_be_started_is_left_out(start: Start, wrapper: str, why: str) -> None:
    outcome = start(OURS, arguments=["bootstrap.py"], TRUEMEM_EXEC_WRAPPER=wrapper)
    assert outcome.stderr == f"truemem ERROR TRUEMEM_EXEC_WRAPPER: {why}; the runtime starts without it\n"
    assert (outcome.api, outcome.arguments) == (THROUGH, ["bootstrap.py"])


def test_named_as_its_own_next_it_does_not_run_in_circles(start: Start, exact: Path) -> None:
    outcome = start(OURS, TRUEMEM_EXEC_WRAPPER=str(exact))
    assert (outcome.api, outcome.stderr, len(outcome.told)) == (THROUGH, "", 1)


def test_little_stack_is_enough(native: Layer, tmp_path: Path) -> None:
    """As much as the arguments take, and a little more: what a shell can still run, we can."""
    command: list[str | Path] = ["sh", "-c", 'ulimit -s 160; exec "$0" echo $(seq 9000)', native.wrapper]
    outcome = in_own_network(command, {}, {**PLAIN, "TRUEMEM_EXEC_WRAPPER": vendor(tmp_path, 'exec "$@"')})
    assert outcome.stdout.split() == [str(number) for number in range(1, 9001)]


# --- the other architecture -------------------------------------------------------------------------------------------


def test_on_arm64_it_does_the_same(foreign: Layer, emulator: Path) -> None:
    command: list[str | Path] = [emulator, foreign.wrapper, *RUNTIME, "bootstrap.py"]
    outcome = in_own_network(command, {OURS: "datagram"})
    assert (outcome.api, outcome.arguments) == (THROUGH, ["bootstrap.py"])
    assert in_own_network(command, {}).stderr == NOT_FOUND
