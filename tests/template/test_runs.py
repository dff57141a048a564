"""The built artifacts themselves, under the local Lambda: what is tested is what is deployed."""

import sys
from pathlib import Path

import pytest
from truemem_workbench.local import Function

from deploy import application
from testing.environment import Environment
from testing.installs import Missing
from tests.sample.s3_server import make_bucket, s3_server
from tests.scenarios.clients import installed
from tests.template import sam
from tests.template.resolve import Resolver
from tests.template.stack import plain

pytestmark = [pytest.mark.filterwarnings("ignore:Tried to parse"), pytest.mark.timeout(sam.LONGEST_S + 120)]

SMALL = {"MODEL_COUNT": "6", "MODEL_LAYERS": "2", "MODEL_WIDTH": "64", "INTRA_OP_THREADS": "2"}
"""Models that are made in no time. All else is the template's."""


def built(folder: Path, wrapper: Path) -> Function:
    """The function of an artifacts folder, on the Python that it was built for, started by the wrapper."""
    try:
        python = installed.python("3.13")
    except Missing as reason:
        pytest.skip(str(reason))
    command = (str(wrapper), str(python), "-m", "awslambdaric", "app.handler")
    return Function(command, folder, "app.handler", "python3.13", (folder, folder / "app.py", python, wrapper))


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the layer is for Linux")
@pytest.mark.parametrize("name", ["IncidentX86", "RepairedX86"])
def test_a_built_function_with_the_built_layer_tells_the_truth(
    name: str, build: Path, template: application.Template
) -> None:
    settings = Resolver(plain(template), {}, {"Models": "models"}).resources("AWS::Lambda::Function")[name]
    models = [0, 1, 2, 3, 4, 0]
    with s3_server() as endpoint:
        bucket = make_bucket(endpoint, "models")
        variables = {**settings["Environment"]["Variables"], **SMALL, "AWS_ENDPOINT_URL_S3": endpoint}
        wrapper = variables.pop("AWS_LAMBDA_EXEC_WRAPPER")  # there is no /opt on this machine
        with Environment(
            built(build / name, build / "TruememX86" / wrapper.removeprefix("/opt/")),
            sidecar=build / "TruememX86" / "extensions" / "truemem",
            environment=variables,
            memory_mib=int(settings["MemorySize"]),
            timeout_s=settings["Timeout"],
        ) as environment:
            payloads = []
            for model in models:
                invocation = environment.local.invoke({"model": model, "batch": 8})
                assert invocation.function_error is None, invocation.payload
                environment.invocations.append(invocation)
                assert isinstance(invocation.payload, dict)
                payloads.append(invocation.payload)
            records = environment.records()
            log = environment.log()
        uploaded = bucket.keys()

    assert [payload["cached"] for payload in payloads] == [1, 2, 3, 4, 4, 4]
    assert payloads[0]["output"] == payloads[-1]["output"]
    assert [record.requestId for record in records] == [made.request_id for made in environment.invocations], log
    assert all(record.PeakRSS >= record.CurrentRSS > 0 for record in records[:-1])
    assert records[-1].PeakRSS > 0  # shut down with its environment, perhaps before it was looked at
    for record in records:
        assert record.MaxMemoryUsed is not None
        assert record.status == "success"
        assert record.memoryLimit == settings["MemorySize"]
    assert len(uploaded) >= len(set(models))
    assert all(key.startswith(variables["MODEL_PREFIX"]) for key in uploaded)
