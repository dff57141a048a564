"""The bucket that models are kept in. Imported only where there is one: boto3 and its client take tens of MiB."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import IO, TYPE_CHECKING

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError, PartialCredentialsError

if TYPE_CHECKING:
    from botocore.response import StreamingBody
    from mypy_boto3_s3 import S3Client

CONFIG = Config(connect_timeout=5, read_timeout=30, retries={"mode": "standard", "max_attempts": 3})
"""Shorter than boto3's minute each, so that a bucket out of reach ends in an error and not in a timeout."""


class BucketError(RuntimeError):
    """S3 did not do what was asked. The message names the object, S3's word for it, and the fix."""


class Bucket:
    """Objects below one prefix of one bucket."""

    def __init__(self, name: str, prefix: str, client: S3Client | None = None) -> None:
        """Bucket `name`, keys below `prefix`. AWS_ENDPOINT_URL_S3 is honoured by boto3. Raises BucketError."""
        self.name = name
        self.prefix = prefix
        with self._explained(""):
            self._client = client or boto3.client("s3", config=CONFIG)

    def url(self, name: str) -> str:
        """Object `name` as people write it."""
        return f"s3://{self.name}/{self.prefix}{name}"

    def size(self, name: str) -> int | None:
        """Bytes of object `name`, or None if it is not there. Raises BucketError."""
        with self._explained(name):
            try:
                return self._client.head_object(Bucket=self.name, Key=self.prefix + name)["ContentLength"]
            except ClientError as error:
                # HEAD has no body that could tell a missing key from a missing bucket: `put` will
                if error.response["Error"]["Code"] != "404":
                    raise
                return None

    @contextmanager
    def get(self, name: str, size: int) -> Iterator[StreamingBody | None]:
        """Object `name` of `size` bytes, to be read inside `with`; None if it is not there. Raises BucketError."""
        with self._explained(name):
            try:
                answer = self._client.get_object(Bucket=self.name, Key=self.prefix + name)
            except self._client.exceptions.NoSuchKey:
                yield None
                return
            # not `with answer["Body"]`: that would hand out what is below it, which checks no checksum
            with closing(answer["Body"]) as body:
                if answer["ContentLength"] != size:
                    raise BucketError(
                        f"{self.url(name)} has {answer['ContentLength']} bytes, not {size}:"
                        " delete it, and it is made anew"
                    )
                yield body

    def put(self, name: str, file: IO[bytes]) -> None:
        """Upload an open file in one request, without threads. Raises BucketError.

        S3 puts an object there whole or not at all. Two environments that miss the same model both upload it:
        the bytes are the same, so it does not matter who is last.
        """
        with self._explained(name):
            self._client.put_object(Bucket=self.name, Key=self.prefix + name, Body=file)

    @contextmanager
    def _explained(self, name: str) -> Iterator[None]:
        try:
            yield
        except (NoCredentialsError, PartialCredentialsError) as error:
            raise BucketError(
                f"{self.url(name)}: {error}: run `aws configure`, or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
            ) from error
        except ClientError as error:
            code = error.response["Error"]["Code"]
            raise BucketError(f"{self.url(name)}: {code}: {self._fix(code)}") from error
        except BotoCoreError as error:
            raise BucketError(f"{self.url(name)}: {error}: check the region and the network, then try again") from error

    def _fix(self, code: str) -> str:
        if code in ("NoSuchBucket", "404"):
            return f"there is no bucket {self.name}: check MODEL_BUCKET (or --bucket), or create it"
        if code in ("AccessDenied", "403"):
            return (
                f"allow s3:GetObject and s3:PutObject on {self.prefix}* and s3:ListBucket on the bucket"
                " (without it, S3 says AccessDenied for what is missing)"
            )
        if code in ("InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "InvalidToken"):
            return "these credentials are not valid: check AWS_PROFILE and the AWS_* variables"
        return "see the S3 documentation for this code, or try again"
