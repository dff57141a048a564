"""No value is in the log: of a variable, a header, an address, an event or an answer. Each of them is a secret here."""

import ast
import json
import os
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
import truemem
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from truemem import config
from truemem.config import OUTPUTS
from truemem.journal import Journal
from truemem.outputs import RecordOutputs
from truemem.platform.proxy import open_listener
from truemem.records.pending_record import PendingRecord
from truemem.records.record import InvocationRecord
from truemem.startup import configured
from truemem.support.clock import Clock
from truemem.support.files import path_in
from truemem.support.log import log, reason

from faults import receivers
from faults.receivers import Behaviour, Collector, Connection
from testing.environment import SIDECAR
from tests.fuzz.platform import Answer, Platform, invoke, response

MARK = "zqxj"
"""In the log, it is a part of a secret."""
SECRET = MARK * 5

PACKAGE = Path(truemem.__file__).parent
API = "AWS_LAMBDA_RUNTIME_API"


def modules() -> Iterator[tuple[str, ast.Module]]:
    """The sidecar's, by their paths in it."""
    for path in sorted(PACKAGE.rglob("*.py")):
        yield f"{path.relative_to(PACKAGE)}", ast.parse(path.read_bytes())


def variables_in_code() -> set[str]:
    """Every name of a variable that stands in the code: a new setting is planted with a secret by itself."""
    texts = [node.value for _, tree in modules() for node in ast.walk(tree) if isinstance(node, ast.Constant)]
    names = {text.decode("latin-1") if isinstance(text, bytes) else str(text) for text in texts}
    found = {name for name in names if re.fullmatch(r"TMPDIR|[A-Z][A-Z0-9]*(_[A-Z0-9]+)+", name)}
    return found | {f"TRUEMEM_{name}" for name in (*config.SETTING_NAMES, config.EXEC_WRAPPER)}


VARIABLES = sorted(variables_in_code())


class Asked(dict[bytes, bytes]):
    """Variables of which none is set, and the names of those that were asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def get(self, name: bytes, default: object = None) -> object:  # type: ignore[override]
        self.names.add(name.decode())
        return default


def test_all_variables_that_are_read_are_planted() -> None:
    asked = Asked()
    start(asked)
    assert asked.names <= set(VARIABLES)
    assert len(asked.names) > 30


# Settings

SHAPES = [
    *("{s}", "ü{s}", "'{s}'", '"{s}"', "\x01{s}\x1b[2J", "{s}\n{s}", "{s} {s}", "-1{s}", "true {s}", "{long}", "%{s}"),
    *("{s}={s}", "{s}:{s}", "a={s}", "a={s},{s}", "a=b,{s}={s}", "a={s}%0A", "a%20{s}=b", "host={s}", "={s}", "ü={s}"),
    *("Authorization: Basic {s}==", "Authorization=Basic {s}", "a=\x01{s}", "FunctionName={s}", "AWS/{s}", ":{s}=a"),
    *("http://{s}", "http://{s}:1", "http://localhost:{s}", "http://{s}@localhost", "http://a:{s}@127.0.0.1:{port}/"),
    *("http://localhost:{port}/{s}?{s}={s}#{s}", "http://localhost:{port}/ {s}", "https://localhost/{s}", "http:{s}"),
    *("{s}://localhost:{port}", "localhost:{port}/{s}", "http://10.0.0.1:{port}/{s}", "http://[::1{s}]:{port}"),
    *(
        "udp://{s}:1",
        "udp://localhost:{s}",
        "udp://127.0.0.1:{port}/{s}",
        "unix:///{s}",
        "unix:///{long}",
        "unix://{s}",
    ),
    *("/tmp/{s}", "127.0.0.1:{s}", "{s}:1", "127.0.0.1", "grpc", "json,{s}", "9" * 5000),
]

VALUES = st.sampled_from(SHAPES) | st.builds("{}{{s}}{}".format, *[st.text(st.characters(exclude_characters="{}"))] * 2)


def planted(shape: str, port: int) -> bytes:
    return shape.format(s=SECRET, long=SECRET * 100, port=port).encode("utf-8", "replace").replace(b"\0", b"")


def start(environ: Mapping[bytes, bytes]) -> None:
    """Read all settings, send a record to all outputs, and say what the log would say of it."""
    made = configured(environ)
    made.outputs = OUTPUTS
    outputs = RecordOutputs(made, environ, Clock())
    log("info", outputs.where)
    pending = PendingRecord(SECRET, 1, 1)
    outputs.begun(pending, {"invokedFunctionArn": SECRET, "tracing": {"value": SECRET}})
    outputs.finished(InvocationRecord(1, {"PeakRSS": 5.0}, {"environmentId": SECRET}), pending)
    outputs.hurry(2_000_000_000, last=True)
    log("info", Journal(path_in(environ, "truemem-secret") + "/none").problem)
    listener = open_listener(environ.get(API.encode(), b"").decode("latin-1"))
    if listener is not None:
        listener.socket.close()
        listener.handshake.close()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(shapes=st.fixed_dictionaries({}, optional=dict.fromkeys(VARIABLES, VALUES)))
def test_no_setting_is_in_the_log(shapes: dict[str, str], capfd: pytest.CaptureFixture[str]) -> None:
    """The collector refuses: there is none."""
    with Collector() as absent:
        start({name.encode(): planted(shape, absent.port) for name, shape in shapes.items()})
    said = capfd.readouterr().err
    assert "truemem " in said
    assert MARK not in said.lower()


@pytest.mark.parametrize("name", [name for name in VARIABLES if name.startswith(("TRUEMEM_", "OTEL_", "DD_"))])
def test_no_shape_of_a_setting_is_in_the_log(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    for shape in SHAPES:
        environ = {name.encode(): planted(shape, 1)}
        configured(environ)
        RecordOutputs(configured({b"TRUEMEM_OUTPUT": b"otlp,dogstatsd"}), environ, Clock())
    assert MARK not in capfd.readouterr().err.lower()


# Collectors that say what they were sent


def echo(before: bytes, after: bytes = b"\r\n\r\n") -> Behaviour:
    def answering(collector: Collector, connection: Connection, _: bytes) -> bool:
        connection.sendall(before + collector.heads[-1].replace(b"\r\n", b" ") + after)
        connection.close()
        return False

    return answering


def partial(collector: Collector, connection: Connection, _: bytes) -> bool:
    message = collector.heads[-1].decode("latin-1")
    body = json.dumps({"partialSuccess": {"rejectedDataPoints": 3, "errorMessage": message}}).encode()
    connection.sendall(receivers.status(200, "", body))
    return True


@pytest.mark.parametrize(
    "behaviour",
    [echo(b""), echo(b"HTTP/1.1 500 "), echo(b"HTTP/1.1 200 OK\r\n", b"\r\n\r\n"), partial, receivers.dies],
    ids=["no HTTP", "a reason", "no header", "a partial success", "dies"],
)
def test_what_was_sent_to_a_collector_is_not_in_the_log(
    behaviour: Behaviour, capfd: pytest.CaptureFixture[str]
) -> None:
    with Collector(behaviour) as collector:
        collector.start()
        shapes = {"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://localhost:{port}/{s}?{s}={s}"}
        shapes |= {"OTEL_EXPORTER_OTLP_HEADERS": "authorization=Basic {s}", "OTEL_RESOURCE_ATTRIBUTES": "{s}={s}"}
        start({name.encode(): planted(shape, collector.port) for name, shape in shapes.items()})
        (head,) = collector.heads
    said = capfd.readouterr().err
    assert head.count(SECRET.encode()) == 4
    assert f"otlp to 127.0.0.1:{collector.port}: " in said
    assert MARK not in said


# Exceptions


FAILS: dict[str, Callable[[], object]] = {
    "ValueError": lambda: int(SECRET),
    "UnicodeDecodeError": lambda: f"ü{SECRET}".encode().decode("ascii"),
    "UnicodeEncodeError": lambda: f"ü{SECRET}".encode("ascii"),
    "KeyError": lambda: dict[str, str]()[SECRET],
    "AttributeError": lambda: getattr(b"", SECRET),
    "[Errno 2] No such file or directory": lambda: Path(SECRET).stat(),
}
"""Each says with what it has failed."""


@pytest.mark.parametrize("name", FAILS)
def test_of_an_exception_the_log_has_what_failed_and_where(name: str) -> None:
    with pytest.raises(Exception) as raised:
        FAILS[name]()
    assert MARK in f"{raised.value} {raised.value!r}"
    where = "" if "Errno" in name else f" in {__name__}.<lambda>"
    assert reason(raised.value) == f"{name}{where}"


# The real sidecar

EVENT = json.dumps({"eventType": SECRET, "requestId": SECRET}).encode()
HOSTILE = [
    Answer(response(200, EVENT)),
    Answer(response(500, b'{"errorType":"%s: %s"}' % (SECRET.encode(), EVENT))),
    Answer(SECRET.encode() + b"\r\n\r\n", "close"),
    Answer(response(200, b'{"eventType":"INVOKE","requestId":"%s"' % SECRET.encode())),
]


@pytest.mark.parametrize("shape", ["{s}", "Authorization: Basic {s}==", "http://a:{s}@localhost:{port}/{s}?{s}"])
def test_the_log_of_the_real_sidecar_has_no_secret(shape: str) -> None:
    """All variables have one, and so have the answers of the Extensions API."""
    variables = {name.encode(): planted(shape, 1) for name in VARIABLES if name != API}
    variables |= {b"TRUEMEM_OUTPUT": b"emf,otlp,dogstatsd", b"TRUEMEM_PROPERTIES": b"key=%s" % SECRET.encode()}
    variables |= {b"OTEL_SDK_DISABLED": b"false", b"OTEL_METRICS_EXPORTER": b"otlp"}
    refused = [Answer(response(500, EVENT)), Answer(response(500, b'{"errorType":"InternalError"}'))]
    subscribed = Answer(response(403, EVENT))
    with Platform(
        [*HOSTILE, Answer(invoke(SECRET))], registers=refused, subscribed=subscribed, variables=variables
    ) as platform:
        platform.wait_for_nexts(len(HOSTILE) + 2)
        records = platform.end()
        said = platform.told()
    assert [record["key"] for record in records if "key" in record] == [SECRET] * len(records)  # as the user wants it
    for expected in ("TRUEMEM_CPU_BUDGET is not", "register: status 500, InternalError", "no event that we asked for"):
        assert expected in said
    assert all(line.startswith("truemem ") for line in said.splitlines())
    assert MARK not in said.lower()


@pytest.mark.parametrize("address", [SECRET, f"{SECRET}:{SECRET}", f"{SECRET}:\xb2", "127.0.0.1:99999", f"{SECRET}\n:"])
def test_an_api_address_that_cannot_be_is_not_in_the_log(address: str) -> None:
    environment = {b"PATH": os.environb[b"PATH"], API.encode(): address.encode("latin-1")}
    done = subprocess.run([SIDECAR], env=environment, capture_output=True, text=True, check=False, timeout=60)
    (line,) = (done.stdout + done.stderr).splitlines()
    assert done.returncode == 1
    assert line.startswith("truemem ERROR ")
    assert MARK not in line


# One way to the log


def test_all_lines_of_the_log_pass_one_function() -> None:
    """What writes to descriptor 1 or 2, or as print() does. A line of records goes to a descriptor with a name."""
    found = []
    ways = re.compile(r"posix\.write\([12],|print\(|sys\.(__)?std(out|err)|import (traceback|logging|warnings)")
    for name, tree in modules():
        for node in ast.walk(tree):
            text = ast.unparse(node) if isinstance(node, (ast.Call, ast.Attribute, ast.Import)) else ""
            if ways.match(text):
                found.append((name, text[:13]))
    assert found == [("lifecycle/self_check.py", "posix.write(1"), ("support/log.py", "posix.write(2")]
