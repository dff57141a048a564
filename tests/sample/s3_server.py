"""moto's S3 server on loopback: real HTTP, behind the real boto3."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import boto3
from moto.server import ThreadedMotoServer
from mypy_boto3_s3 import S3Client

CREDENTIALS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_REGION": "us-east-1"}


@dataclass(frozen=True)
class S3:
    """One server, one bucket."""

    endpoint: str
    bucket: str
    client: S3Client
    """A client of the test's own."""

    @property
    def variables(self) -> dict[str, str]:
        """What makes the sample function use it."""
        return {**CREDENTIALS, "AWS_ENDPOINT_URL_S3": self.endpoint, "MODEL_BUCKET": self.bucket}

    def keys(self) -> list[str]:
        return [entry["Key"] for entry in self.client.list_objects_v2(Bucket=self.bucket).get("Contents", [])]

    def content(self, key: str) -> bytes:
        return self.client.get_object(Bucket=self.bucket, Key=key)["Body"].read()


@contextmanager
def s3_server() -> Iterator[str]:
    """Its URL. Stopped at the end."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        yield f"http://{host}:{port}"
    finally:
        server.stop()


def make_bucket(endpoint: str, name: str) -> S3:
    client = client_of(endpoint)
    client.create_bucket(Bucket=name)
    return S3(endpoint, name, client)


def client_of(endpoint: str) -> S3Client:
    return boto3.client(
        "s3", endpoint_url=endpoint, region_name="us-east-1", aws_access_key_id="test", aws_secret_access_key="test"
    )


def counted(client: S3Client) -> Counter[str]:
    """How often `client` calls each operation, from now on."""
    calls: Counter[str] = Counter()

    def count(model: Any, **_: Any) -> None:
        calls[model.name] += 1

    client.meta.events.register("before-call.s3", count)
    return calls
