"""The demo with its models in S3: the sample under the local Lambda, downloads over HTTP from moto's server."""

from __future__ import annotations

import itertools
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from truemem_workbench.demo.run import SAMPLE, run
from truemem_workbench.demo.workload import Call
from truemem_workbench.local import Function, LocalLambda, Settings

from tests.sample.s3_server import S3, make_bucket, s3_server

NUMBERS = itertools.count(1)
EVENTS: list[dict[str, Any]] = [
    {"model": 3, "tenant": "acme"},
    {"model": 11},
    {"model": 3, "batch": 40},
    {"model": 0, "rows": [[0.5] * 256, [-1.5] * 256]},
    {"model": 11, "tenant": "umbrella"},
]


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with s3_server() as url:
        yield url


@pytest.fixture
def s3(endpoint: str) -> S3:
    return make_bucket(endpoint, f"demo-{next(NUMBERS)}")


def answers(variables: dict[str, str]) -> tuple[list[dict[str, Any]], list[dict[str, Any]], list[str]]:
    """What the sample answers under the local Lambda, the JSON lines that it logs, and what is in its store."""
    with tempfile.TemporaryDirectory(prefix="truemem-demo-") as store:
        Path(store).chmod(0o1777)
        environment = {**variables, "MODEL_DIR": store, "CACHE_SIZE": "1"}
        settings = Settings(name="onnx-incident", memory_mib=512, timeout_s=60, environment=environment)
        with LocalLambda(Function.from_handler(f"{SAMPLE / 'app.py'}:handler"), settings) as local:
            invocations = [local.invoke(event) for event in EVENTS]
            said = [line.text for line in local.logs if line.source == "function" and line.text.startswith("{")]
        assert [invocation.function_error for invocation in invocations] == [None] * len(EVENTS)
        kept = sorted(path.name for path in Path(store).iterdir())
    payloads = cast(list[dict[str, Any]], [invocation.payload for invocation in invocations])
    return payloads, [json.loads(line) for line in said], kept


@pytest.fixture(scope="module")
def local_answers() -> list[dict[str, Any]]:
    """Without a bucket."""
    return answers({})[0]


MODELS = [f"model-{model:02}-24x256.onnx" for model in (0, 3, 11)]


@pytest.mark.parametrize("load_from", ["bytes", "path"])
def test_models_in_s3_answer_as_local_ones_made_or_downloaded(
    s3: S3, local_answers: list[dict[str, Any]], load_from: str
) -> None:
    variables = {**s3.variables, "LOAD_FROM": load_from}
    s3.client.put_bucket_versioning(Bucket=s3.bucket, VersioningConfiguration={"Status": "Enabled"})
    # the bucket is empty: models are made on first use, and uploaded
    first, _, _ = answers(variables)
    assert first == local_answers
    assert s3.keys() == [f"models/{name}" for name in MODELS]

    # another environment, with an empty store: it reads, and uploads nothing
    second, lines, kept = answers(variables)
    assert second == local_answers
    versions = s3.client.list_object_versions(Bucket=s3.bucket)["Versions"]
    assert [version["Key"] for version in versions] == s3.keys()
    assert kept == (MODELS if load_from == "path" else [])

    scored = [line for line in lines if line.get("message") == "scored"]
    assert [(line["model"], line.get("tenant")) for line in scored] == [
        (event["model"], event.get("tenant")) for event in EVENTS
    ]
    assert len({line["function_request_id"] for line in scored}) == len(EVENTS)


def test_the_demo_runs_on_a_bucket_and_leaves_its_models_there(s3: S3) -> None:
    def progress(doing: str, done: int, of: int) -> None:
        """Nothing to look at here."""

    calls = [Call(3), Call(11), Call(3), Call(11)]
    outcome = run(calls, memory_mib=512, variables={**s3.variables, "LOAD_FROM": "path"}, progress=progress)

    assert [row.error for row in outcome.rows] == [None] * 4
    assert all(row.peak is not None and row.peak > 50 for row in outcome.rows), outcome.last_words
    assert s3.keys() == [f"models/{name}" for name in MODELS[1:]]
