"""Models from S3: moto's server over HTTP, behind boto3."""

from __future__ import annotations

import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from bucket import Bucket, BucketError
from models import main
from network import Shape, model_name
from onnx_file import model_chunks
from sources import BucketModels
from store import ModelStore

from tests.report.service import saying
from tests.sample.conftest import Sample
from tests.sample.s3_server import CREDENTIALS, S3, client_of, counted

SMALL = Shape(layers=2, width=16)
EVENTS = [{"model": model} for model in (3, 1, 3, 0, 2, 3)]
SMALL_SETTINGS = {"MODEL_COUNT": "4", "MODEL_LAYERS": "2", "MODEL_WIDTH": "16"}


def made(model: int) -> bytes:
    return b"".join(model_chunks(SMALL, model))


def key(model: int) -> str:
    return f"models/{model_name(SMALL, model)}"


def sources(s3: S3, folder: Path, limit: int = 2**20) -> BucketModels:
    return BucketModels(Bucket(s3.bucket, "models/", s3.client), ModelStore(folder, limit), SMALL)


@pytest.mark.parametrize("load_from", ["bytes", "path"])
def test_what_the_bucket_lacks_is_made_and_uploaded_and_the_answers_are_those_without_one(
    sample: Sample, s3: S3, tmp_path: Path, load_from: str
) -> None:
    local = sample(*EVENTS, **SMALL_SETTINGS, MODEL_DIR=str(tmp_path / "local"))
    remote = sample(*EVENTS, **SMALL_SETTINGS, **s3.variables, MODEL_DIR=str(tmp_path / "store"), LOAD_FROM=load_from)

    assert remote.code == 0, remote.stderr
    assert remote.answers == local.answers
    assert s3.keys() == [key(model) for model in range(4)]
    assert all(s3.content(key(model)) == made(model) for model in range(4))


@pytest.mark.parametrize("load_from", ["bytes", "path"])
def test_what_the_bucket_has_is_downloaded(sample: Sample, s3: S3, tmp_path: Path, load_from: str) -> None:
    # number 3's weights under number 1's key: only who reads the bucket can answer with them
    s3.client.put_object(Bucket=s3.bucket, Key=key(1), Body=made(3))
    variables = {**SMALL_SETTINGS, **s3.variables, "MODEL_DIR": str(tmp_path), "LOAD_FROM": load_from}
    one, three = sample({"model": 1}, {"model": 3}, **variables).answers
    assert one["output"] == three["output"]


def test_bytes_are_read_from_the_bucket_with_every_load_and_files_once(s3: S3, tmp_path: Path) -> None:
    s3.client.put_object(Bucket=s3.bucket, Key=key(1), Body=made(1))
    calls = counted(s3.client)
    models = sources(s3, tmp_path)

    for _ in range(3):
        assert models.content(1) == made(1)
    assert calls == {"GetObject": 3}
    assert list(tmp_path.iterdir()) == []

    calls.clear()
    for _ in range(3):
        with models.file(1) as path:
            assert path.read_bytes() == made(1)
    assert calls == {"GetObject": 1}


def test_a_file_that_the_store_dropped_is_downloaded_again(s3: S3, tmp_path: Path) -> None:
    for model in range(3):
        s3.client.put_object(Bucket=s3.bucket, Key=key(model), Body=made(model))
    calls = counted(s3.client)
    models = sources(s3, tmp_path, limit=2 * len(made(0)))
    for model in (0, 1, 2, 0, 2):
        with models.file(model) as path:
            assert path.read_bytes() == made(model)
    assert calls == {"GetObject": 4}


@pytest.mark.parametrize("how", ["content", "file"])
def test_two_environments_that_miss_the_same_model_both_get_it(s3: S3, tmp_path: Path, how: str) -> None:
    both_miss = threading.Barrier(2)

    def meet(**_: Any) -> None:
        both_miss.wait(timeout=20)

    def environment(number: int) -> bytes:
        client = client_of(s3.endpoint)
        client.meta.events.register("before-call.s3.PutObject", meet)
        return loaded(sources(S3(s3.endpoint, s3.bucket, client), tmp_path / str(number)), 2, how)

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(environment, range(2))) == [made(2), made(2)]
    assert s3.content(key(2)) == made(2)


def loaded(models: BucketModels, model: int, how: str) -> bytes:
    if how == "content":
        return models.content(model)
    with models.file(model) as path:
        return path.read_bytes()


@pytest.mark.parametrize("how", ["content", "file"])
def test_an_object_of_another_size_is_refused_by_name(s3: S3, tmp_path: Path, how: str) -> None:
    s3.client.put_object(Bucket=s3.bucket, Key=key(1), Body=b"not a model")
    with pytest.raises(BucketError) as caught:
        loaded(sources(s3, tmp_path), 1, how)
    assert str(caught.value) == (
        f"s3://{s3.bucket}/{key(1)} has 11 bytes, not {len(made(1))}: delete it, and it is made anew"
    )
    assert list(tmp_path.iterdir()) == []


NOWHERE = "NoSuchBucket: there is no bucket nowhere: check MODEL_BUCKET (or --bucket), or create it"


def test_a_bucket_that_is_not_there_is_named(sample: Sample, s3: S3, tmp_path: Path) -> None:
    variables = {**s3.variables, "MODEL_BUCKET": "nowhere", "MODEL_DIR": str(tmp_path)}
    run = sample({"model": 1}, **variables)
    assert run.code != 0
    assert run.stderr.splitlines()[-1] == f"bucket.BucketError: s3://nowhere/models/model-01-24x256.onnx: {NOWHERE}"


def test_what_is_forbidden_says_which_permission_is_missing() -> None:
    denied = b"<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"
    with saying(403, denied) as endpoint:
        bucket = Bucket("mine", "models/", client_of(endpoint))
        with (
            pytest.raises(BucketError, match=r"^s3://mine/models/m: AccessDenied: allow s3:GetObject .*s3:ListBucket"),
            bucket.get("m", 1),
        ):
            pass
        with pytest.raises(BucketError, match=r"^s3://mine/models/m: 403: allow s3:GetObject"):
            bucket.size("m")


@pytest.fixture
def shell(s3: S3, monkeypatch: pytest.MonkeyPatch) -> S3:
    """The variables that the upload's user has."""
    for name, value in {**CREDENTIALS, "AWS_ENDPOINT_URL_S3": s3.endpoint}.items():
        monkeypatch.setenv(name, value)
    return s3


UPLOAD = ["upload", "--count", "3", "--layers", "2", "--width", "16"]


def test_upload_makes_and_uploads_what_is_missing_and_says_so(shell: S3, capsys: pytest.CaptureFixture[str]) -> None:
    shell.client.put_object(Bucket=shell.bucket, Key=key(0), Body=made(0))
    shell.client.put_object(Bucket=shell.bucket, Key=key(1), Body=b"half")

    assert main([*UPLOAD, "--bucket", shell.bucket]) == 0

    url = f"s3://{shell.bucket}/models/model-"
    assert capsys.readouterr().out.splitlines() == [
        f"1/3 {url}00-2x16.onnx: there already",
        f"2/3 {url}01-2x16.onnx: uploaded, 0.0 MiB",
        f"3/3 {url}02-2x16.onnx: uploaded, 0.0 MiB",
    ]
    assert [shell.content(key(model)) for model in range(3)] == [made(model) for model in range(3)]


def test_upload_takes_another_prefix(shell: S3) -> None:
    assert main([*UPLOAD, "--bucket", shell.bucket, "--prefix", "a/b/"]) == 0
    assert shell.keys() == [f"a/b/{model_name(SMALL, model)}" for model in range(3)]


def failed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one line of a command that could not do it."""
    assert main([*UPLOAD, *arguments]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    return str(line)


@pytest.mark.usefixtures("shell")
def test_upload_to_a_bucket_that_is_not_there_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    said = failed(capsys, "--bucket", "nowhere")
    assert said == f"models.py: s3://nowhere/models/model-00-2x16.onnx: {NOWHERE}"


def test_upload_without_credentials_says_what_to_do(
    shell: S3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    # boto3 keeps a session, and it its credentials
    monkeypatch.setattr("boto3.DEFAULT_SESSION", None)
    assert failed(capsys, "--bucket", shell.bucket) == (
        f"models.py: s3://{shell.bucket}/models/model-00-2x16.onnx: Unable to locate credentials:"
        " run `aws configure`, or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
    )


def test_upload_without_a_bucket_says_how_to_name_one(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MODEL_BUCKET", raising=False)
    with pytest.raises(SystemExit) as caught:
        main(UPLOAD)
    assert caught.value.code == 2
    assert "upload: no bucket: add --bucket NAME, or set MODEL_BUCKET" in capsys.readouterr().err


def test_without_boto3_the_command_says_what_to_install(
    shell: S3, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delitem(sys.modules, "bucket")
    monkeypatch.setitem(sys.modules, "boto3", None)
    assert failed(capsys, "--bucket", shell.bucket).endswith("pip install -r requirements.txt")
