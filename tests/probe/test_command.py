"""The probe from its first request to the document that it prints."""

import base64
import json
import queue
import re
import socket
from typing import Any

import pytest
from truemem import VERSION
from truemem_workbench.local import LocalLambda

from research.probe import functions, page, questions
from research.probe.run import anonymous
from tests.probe.account import ACCOUNT, Account, Answer
from tests.probe.unpacked import client_of, served
from tests.report.conftest import Command

NODE = {"preload": True, "version": "v22.0.0"}
PROVIDER = f"arn:aws:lambda:us-east-1:{ACCOUNT}:capacity-provider:one"
KINDS = ("snap-start", "image", "managed-instances", "gpu")
KEPT = ("function error", "extension error")


def test_each_question_has_an_outcome_and_nothing_identifies(
    account: Account, probe: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(questions, "IDLE_S", 1.0)
    small = tuple((when, {**event, "mib": 8} if "mib" in event else event) for when, event in questions.MARKS)
    monkeypatch.setattr(questions, "MARKS", small)
    with served("probe", functions.MEASURE) as local:
        account.run = Stage(account, local)
        user = (
            "--image",
            f"{ACCOUNT}.dkr.ecr.us-east-1.amazonaws.com/one:1",
            "--capacity-provider",
            PROVIDER,
            "--gpu",
            "8",
        )
        done = probe("--architecture", "x86_64", "--memory", "512", *user)

    assert done.code == 0, done.err
    document = done.document
    assert set(document) == {"schema", "truemem", "date", "region", "memoryMiB", "results"}
    assert (document["truemem"], document["region"], document["memoryMiB"]) == (VERSION, "us-east-1", 512)
    result, *kinds = document["results"]
    assert (result["architecture"], result["runtime"]) == ("x86_64", "python3.13")
    outcomes = result["outcomes"]
    assert {name for _, name, _ in page.ROWS} < set(outcomes)
    for name in ("clear_refs own", "mark", "order of release", "freeze", "one environment", "sidecar"):
        assert outcomes[name]["ok"], (name, outcomes[name])
    wrapped = {runtime: outcomes[f"exec wrapper {runtime}"]["value"]["answered"] for runtime in functions.RUNTIMES}
    assert wrapped == {"python3.13": True, "nodejs22.x": True, "ruby3.4": True, "java21": False, "dotnet8": False}
    assert outcomes["exec wrapper nodejs22.x"]["value"]["sidecarMode"] == "exact"
    assert outcomes["NODE_OPTIONS preload"]["value"] == {"version": "v22.0.0"}
    assert outcomes["HotSpot counters"]["value"]["isHotSpots"]
    assert {line for line, kept in outcomes["log filter"]["value"].items() if kept} == {*KEPT, "line of truemem"}
    names = [each["runtime"].removeprefix("python3.13, ") for each in kinds]
    assert sorted(names) == sorted(KINDS)
    for each in kinds:
        assert each["outcomes"]["clear_refs own"]["ok"], each
        assert each["outcomes"]["sidecar"]["value"].startswith("method=")
    assert identifying(done.out) == []
    assert page.tables([document]).count("\n") > len(page.ROWS)


class Stage:
    """Runs `measure` under the local Lambda, and the other functions as they would be: their lines are in the log."""

    def __init__(self, account: Account, local: LocalLambda) -> None:
        self.account, self.client = account, client_of(local)
        self.environment: queue.SimpleQueue[Answer] = queue.SimpleQueue()
        """What `measure` has said of it: the other kinds say the same."""

    def __call__(self, name: str, event: dict[str, Any]) -> Answer:
        if name.endswith("measure"):
            answer = self.client.invoke(FunctionName="probe", Payload=json.dumps(event), LogType="Tail")
            tail = base64.b64decode(answer["LogResult"]).decode()
            found = Answer(json.loads(answer["Payload"].read()), tail, answer.get("FunctionError"))
            if event["do"] == "environment":
                self.environment.put(found)
            return found
        if name.endswith(KINDS):
            found = self.environment.get()
            self.environment.put(found)
            return found
        if name.endswith("filter"):
            lines = [f'{{"level": "ERROR", "message": "truemem-probe {name} {what}"}}' for what in KEPT]
            self.account.print(name, *lines, f'{{"FunctionName": "{name}", "PeakRSS": 20.5}}')
            return Answer({"version": "3.13.0"})
        runtime = next(each for each in functions.RUNTIMES if name.endswith(each.replace(".", "-")))
        said = f"truemem-probe wrapper {name} AWS_Lambda_{runtime}\n"
        if "java" in runtime:
            self.account.print(name, f"truemem-probe hotspot {name} read:yes begin:cafec0c0 bytes:32768")
        if runtime in ("java21", "dotnet8"):
            why = (
                f"RequestId: 3da1f2dc-3222-475e-9205-e2e6c6318895 of arn:aws:lambda:us-east-1:{ACCOUNT}:function:{name}"
            )
            return Answer({"errorMessage": why}, said, "Unhandled")
        return Answer(NODE, f"{said}truemem INFO method=vmhwm limit=512 MiB mode=exact")


def identifying(text: str) -> list[str]:
    """What could tell whose account it was, or which machine and invocation."""
    uuid = r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}"
    stream = r"\d{4}/\d\d/\d\d/[^\s\"]*"
    own = [
        re.escape(ACCOUNT),
        rf"\b{re.escape(socket.gethostname())}\b",
        r"truemem-probe-\w+",
        r"arn:[^\s\"]+",
        r"logStream|requestId",
    ]
    return re.findall("|".join([*own, uuid, stream]), text)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("--image", "one"), "Try --architecture x86_64"),
        (("--architecture", "x86_64", "--gpu", "8", "--image", "one"), "--gpu needs an image, and Managed Instances"),
    ],
)
def test_kinds_that_cannot_be_asked_are_refused_first(probe: Command, arguments: tuple[str, ...], why: str) -> None:
    assert why in probe(*arguments).refusal


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("denied: arn:aws:iam::123456789012:role/truemem-probe-0123abcd, no", "denied: ARN, no"),
        ("truemem-probe-0123abcd-arm64-java21 failed", "FUNCTION failed"),
        ("RequestId: 3da1f2dc-3222-475e-9205-e2e6c6318895", "RequestId: UUID"),
        ("2026/11/23/[$LATEST]0123456789abcdef0123456789abcdef", "STREAM"),
        ("/sandbox/0123456789abcdef0123456789abcdef/rootfs", "/sandbox/HEX/rootfs"),
        ("169.254.100.1:9001", "IP:9001"),
        ("ip-10-0-1-2.eu-west-1.compute.internal", "HOST"),
        ("CapEff 0000000000000000", "CapEff 0000000000000000"),
    ],
)
def test_what_identifies_becomes_a_word_and_the_rest_stays(text: str, shown: str) -> None:
    assert anonymous({"evidence": [text, 123456789012, True, None]}) == {"evidence": [shown, 123456789012, True, None]}
