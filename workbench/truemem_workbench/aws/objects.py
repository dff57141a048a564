"""Writes objects in S3: what a command writes where it has no disk of the user's, as in a Spark job."""

from __future__ import annotations

import re
from pathlib import Path

from .clients import client, refused

_SCHEME = re.compile(r"([a-z][a-z0-9+.-]+):/(?!/)")


def uri(path: Path) -> str:
    """The path as it was typed: `s3://bucket/key` has lost a slash as a Path. A path without a scheme as it is."""
    return _SCHEME.sub(r"\1://", str(path), count=1)


def is_object(path: Path) -> bool:
    """True if the path names an object in S3."""
    return uri(path).startswith(("s3://", "s3a://"))


def put(path: Path, content: str) -> None:
    """Write an object. Raises BadInput if it cannot be written."""
    bucket, _, key = uri(path).partition("://")[2].partition("/")
    with refused(f"{uri(path)} cannot be written", "s3:PutObject"):
        client("s3").put_object(Bucket=bucket, Key=key, Body=content.encode())
