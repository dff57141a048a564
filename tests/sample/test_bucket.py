"""Models from S3: moto's server over HTTP, behind boto3."""

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


def sources(s3: S3, folder: Path) -> BucketModels:
    return BucketModels(Bucket(s3.bucket, "models/", s3.client), ModelStore(folder, 2**20), SMALL)


@pytest.fixture(scope="module")
def local(sample: Sample, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """The answers without a bucket."""
    return sample(*EVENTS, **SMALL_SETTINGS, MODEL_DIR=str(tmp_path_factory.mktemp("local"))).answers


@pytest.mark.parametrize("load_from", ["bytes", "path"])
def test_what_the_bucket_lacks_is_made_and_uploaded(
    sample: Sample, local: list[dict[str, Any]], s3: S3, tmp_path: Path, load_from: str
) -> None:
    # number 3's weights under number 1's key: only who reads the bucket can answer with them
    s3.client.put_object(Bucket=s3.bucket, Key=key(1), Body=made(3))
    remote = sample(*EVENTS, **SMALL_SETTINGS, **s3.variables, MODEL_DIR=str(tmp_path), LOAD_FROM=load_from)

    assert remote.code == 0, remote.stderr
    three = local[0]["output"]
    assert remote.answers == [{**each, "output": three} if each["model"] == 1 else each for each in local]
    assert s3.keys() == [key(model) for model in range(4)]
    assert [s3.content(key(model)) for model in range(4)] == [made(model) for model in (0, 3, 2, 3)]


def test_bytes_are_read_with_every_load_and_files_once(s3: S3, tmp_path: Path) -> None:
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


def test_a_bucket_that_is_not_there_is_named(s3: S3, tmp_path: Path) -> None:
    models = BucketModels(Bucket("nowhere", "models/", s3.client), ModelStore(tmp_path, 2**20), SMALL)
    with pytest.raises(BucketError) as caught:
        models.content(1)
    why = "NoSuchBucket: there is no bucket nowhere: check MODEL_BUCKET (or --bucket), or create it"
    assert str(caught.value) == f"s3://nowhere/{key(1)}: {why}"


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


def test_upload_makes_and_uploads_what_is_missing_and_says_so(
    s3: S3, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {**CREDENTIALS, "AWS_ENDPOINT_URL_S3": s3.endpoint}.items():
        monkeypatch.setenv(name, value)
    s3.client.put_object(Bucket=s3.bucket, Key=key(0), Body=made(0))
    s3.client.put_object(Bucket=s3.bucket, Key=key(1), Body=b"half")

    assert main(["upload", "--count", "3", "--layers", "2", "--width", "16", "--bucket", s3.bucket]) == 0

    url = f"s3://{s3.bucket}/models/model-"
    assert capsys.readouterr().out.splitlines() == [
        f"1/3 {url}00-2x16.onnx: there already",
        f"2/3 {url}01-2x16.onnx: uploaded, 0.0 MiB",
        f"3/3 {url}02-2x16.onnx: uploaded, 0.0 MiB",
    ]
    assert [s3.content(key(model)) for model in range(3)] == [made(model) for model in range(3)]
