"""Images under the local Lambda: what their processes see, and what the commands say of them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from truemem_workbench.commands.__main__ import cli
from truemem_workbench.local import Function
from truemem_workbench.local.images.image import load
from truemem_workbench.target.resolve import resolve

from testing.environment import SLACK_MIB, Environment
from testing.images import PYTHON, Made, docker_archive, layer, oci_folder, python_image
from tests.check.conftest import Refused
from tests.report.conftest import Command

pytestmark = pytest.mark.usefixtures("shared_cache")

SEES = """
import os, pathlib
def own():
    status = pathlib.Path("/proc/self/status").read_text().split()
    return int(status[status.index("VmHWM:") + 1]) / 1024
def handler(event, context):
    block = bytearray(event["mib"] << 20)
    del block
    try:
        open("/function/new", "w")
        written = True
    except OSError:
        written = False
    return {
        "truth": own(), "uid": os.getuid(), "folder": os.getcwd(), "here": os.listdir("/function"), "written": written,
        "/": sorted(os.listdir("/")), "dev": sorted(os.listdir("/dev")), "env": dict(os.environ),
    }
"""
KEEPS = """
kept = []
def handler(event, context):
    kept.append(bytearray(20_000))
"""
REPAIRED = KEEPS.replace("kept.append", "len")
SHOP = """
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
kept = []
class Shop(BaseHTTPRequestHandler):
    def do_GET(self):
        kept.append(bytearray(20_000))
        self.send_response(200)
        self.end_headers()
ThreadingHTTPServer(("127.0.0.1", 8080), Shop).serve_forever()
"""
BESIDE = f"""#!{PYTHON}
import json, os, urllib.request
API = f"http://{{os.environ['AWS_LAMBDA_RUNTIME_API']}}/2020-01-01/extension"
def ask(path, headers, body=None):
    return urllib.request.urlopen(urllib.request.Request(API + path, body, headers))
made = ask("/register", {{"Lambda-Extension-Name": "beside"}}, json.dumps({{"events": ["INVOKE"]}}).encode())
print("beside sees", os.listdir("/function"), os.environ["OF_IMAGE"], "_HANDLER" in os.environ, flush=True)
while True:
    ask("/event/next", {{"Lambda-Extension-Identifier": made.headers["Lambda-Extension-Identifier"]}})
"""


@pytest.fixture(autouse=True)
def _signals_are_pytests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("truemem_workbench.support.exit_codes.raise_on_signals", lambda: None)


def run(*arguments: object) -> Result:
    return CliRunner().invoke(cli, [*map(str, arguments)])


def function(path: Path) -> Function:
    return Function.from_image(load("image.tar", path, "", lambda done, of: None))


def test_it_has_its_own_root_and_is_measured_exactly(tmp_path: Path, base: bytes) -> None:
    made = python_image(base, SEES)
    made = Made(
        [*made.layers, layer({"opt": None, "opt/extensions": None, "opt/extensions/beside": BESIDE.encode()})],
        {**made.config, "Env": [*made.config["Env"], "OF_IMAGE=image", "OF_BOTH=image"]},
    )
    target = resolve(str(docker_archive(tmp_path / "image.tar", {"app:1": made})))
    with Environment(
        target.function, extensions=[*target.extensions.values()], environment={"OF_BOTH": "function"}, exact=True
    ) as environment:
        answers = [environment.invoke(mib=mib) for mib in (0, 30, 5)]
        processes = environment.local.processes()
        log = [line.text for line in environment.local.logs if line.source == "extension:beside"]
        records = environment.told()
    seen, variables = answers[0], answers[0]["env"]
    assert {"function", "usr", "proc", "tmp"} <= {*seen["/"]} and not {"home", "root", "work"} & {*seen["/"]}
    assert (seen["folder"], seen["here"], seen["written"]) == ("/function", ["app.py"], False)
    assert "shm" not in seen["dev"] and {"null", "urandom", "stdout"} <= {*seen["dev"]}
    assert os.geteuid() != 0 or seen["uid"] != 0
    assert (variables["OF_IMAGE"], variables["OF_BOTH"]) == ("image", "function")
    assert (variables["LAMBDA_TASK_ROOT"], variables["_HANDLER"]) == ("/function", "app.handler")
    assert "AWS_EXECUTION_ENV" not in variables and "HOME" not in variables
    assert {*processes} == {"runtime", "extension:run", "extension:beside"}
    assert log == ["beside sees ['app.py'] image False"]
    for record, answer in zip(records, answers, strict=True):
        assert (record.mode, record.raced) == ("exact", None)
        assert abs(record.PeakRSS - answer["truth"]) <= SLACK_MIB
    assert records[1].PeakRSS > records[0].PeakRSS + 29  # of 30 that are touched, some pages were resident


def test_a_template_names_an_archive_and_another_cmd(tmp_path: Path, base: bytes) -> None:
    oci_folder(tmp_path / "built", {"app:1": python_image(base, "def other(event, context): return 'other'")})
    template = tmp_path / "template.json"
    properties: dict[str, Any] = {
        "PackageType": "Image",
        "ImageUri": "built",
        "ImageConfig": {"Command": ["app.other"]},
        "MemorySize": 256,
    }
    template.write_text(
        json.dumps({"Resources": {"Of": {"Type": "AWS::Serverless::Function", "Properties": properties}}})
    )
    target = resolve(f"{template}:Of")
    assert (target.memory_mib, target.function.handler) == (256, "app.other")
    done = run("local", "run", f"oci:{tmp_path / 'built'}", "--cmd", "app.other", "--event", "{}", "--raw")
    assert done.exit_code == 0, done.output
    assert '"other"' in done.stdout


def test_a_name_in_a_registry_is_not_pulled(refused: Refused) -> None:
    said = refused("python:3.12")
    assert said.startswith(
        "truemem check: no file python:3.12, and images are not pulled. Try docker save -o image.tar python:3.12"
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["oci:nowhere"], "no folder nowhere with an OCI layout. Try buildah push IMAGE oci:nowhere"),
        (["nothing.tar"], "no file nothing.tar. Try docker save -o nothing.tar NAME"),
        (["app.py:handler", "--cmd", "app.other"], "--cmd app.other: app.py:handler is no image. Leave --cmd out"),
    ],
)
def test_what_is_not_there_is_refused(refused: Refused, arguments: list[str], said: str) -> None:
    assert refused(*arguments) == f"truemem check: {said}\n"


def test_what_the_dockerfile_lacks_is_said(truemem: Command, tmp_path: Path, base: bytes) -> None:
    made = python_image(base, KEEPS, Entrypoint=[PYTHON], Cmd=["app.py"])
    path = docker_archive(tmp_path / "image.tar", {"app:1": made})
    said = truemem("check", path, "--invocations", 5)
    assert said.code == 2
    assert "what the image starts has never asked for an event" in said.out
    said = truemem(
        "check", docker_archive(tmp_path / "other.tar", {"app:1": python_image(base, KEEPS)}), "--cmd", "app.no"
    )
    assert (said.code, "HandlerNotFound" in said.out, "never asked" in said.out) == (2, True, False)


@pytest.mark.nightly
def test_a_leak_and_its_repaired_twin_are_judged(truemem: Command, tmp_path: Path, base: bytes) -> None:
    leak = docker_archive(tmp_path / "leak.tar", {"app:1": python_image(base, KEEPS)})
    found = truemem("check", leak, "--json")
    assert (found.code, found.document["finding"]["cause"]) == (1, "leak")
    line = found.document["explanation"]["lines"][0]
    assert (line["file"], line["line"], line["source"]) == ("/function/app.py", 4, "kept.append(bytearray(20_000))")
    repaired = docker_archive(tmp_path / "repaired.tar", {"app:1": python_image(base, REPAIRED)})
    found = truemem("check", repaired, "--json")
    assert (found.code, found.document["finding"]["cause"]) == (0, "none")


@pytest.mark.nightly
def test_a_web_server_is_asked_in_exact_mode(truemem: Command, tmp_path: Path, base: bytes) -> None:
    made = python_image(base, SHOP, Entrypoint=[], Cmd=[PYTHON, "app.py"])
    adapter = layer({"opt/extensions/lambda-adapter": b"the stand-in is started, not this"})
    path = docker_archive(tmp_path / "image.tar", {"app:1": Made([*made.layers, adapter], made.config)})
    found = truemem("check", path, "--json")
    assert (found.code, found.document["finding"]["cause"]) == (1, "leak")
    assert not [each for each in found.document["notices"] if "intervals" in each]
    assert "is a web server, in which no tracer is started" in run("explain", path).output
    assert "is not JSON" not in run("local", "run", path, "--event", "/").output


def test_workers_of_managed_instances_write_to_the_log(truemem: Command, tmp_path: Path, base: bytes) -> None:
    path = docker_archive(tmp_path / "image.tar", {"app:1": python_image(base, "def handler(*_): print('said')")})
    ran = truemem("local", "run", path, "--managed-instances", 2, "--invocations", 4, "--event", "{}", "--raw")
    assert (ran.code, ran.out.count("said")) == (0, 4)


@pytest.mark.nightly
def test_size_and_soak_take_an_image(truemem: Command, tmp_path: Path, base: bytes) -> None:
    path = docker_archive(tmp_path / "image.tar", {"app:1": python_image(base, REPAIRED)})
    assert truemem("size", path, "--memory", "128,256", "--json").document["suggested"]
    soaked = truemem("soak", path, "--for", "10s", "--rate", 2, "--json").document
    assert soaked["invocations"] > 0 and soaked["errors"]["count"] == 0
