"""AWS through boto3: clients that wait when throttled, and refusals in one line with what mends them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..local.errors import BadInput

ATTEMPTS = 10
"""With exponential back-off and a share of chance (botocore's `standard` mode)."""
_EXPIRED = (
    "ExpiredToken",
    "ExpiredTokenException",
    "RequestExpired",
    "InvalidClientTokenId",
    "UnrecognizedClientException",
)
_DENIED = ("AccessDenied", "AccessDeniedException", "UnauthorizedOperation")


def client(service: str) -> Any:
    """Of the caller's own region and credentials. Raises BadInput without boto3, or without a region."""
    try:
        import boto3
        from botocore.config import Config
        from botocore.exceptions import BotoCoreError
    except ImportError:
        raise BadInput("boto3 is not installed. Try pip install boto3") from None
    settings = Config(retries={"mode": "standard", "total_max_attempts": ATTEMPTS}, connect_timeout=10)
    try:
        return boto3.Session().client(service, config=settings)  # type: ignore[call-overload]
    except BotoCoreError as error:
        raise BadInput(f"{error} {_MEND_REGION if 'region' in str(error) else _MEND_CREDENTIALS}") from error


_MEND_REGION = "Try AWS_REGION=eu-west-1 truemem ..."
_MEND_CREDENTIALS = "Try aws sso login, or aws configure; AWS_PROFILE chooses one"


@contextmanager
def refused(what: str, permissions: str) -> Iterator[None]:
    """What botocore raises inside, as BadInput."""
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        yield
    except ClientError as error:
        raise BadInput(_told(what, permissions, error.response.get("Error", {}))) from error
    except BotoCoreError as error:
        missing = type(error).__name__ in ("NoCredentialsError", "PartialCredentialsError", "TokenRetrievalError")
        expired = "SSO" in type(error).__name__ or "Token" in type(error).__name__
        text = "there are no AWS credentials" if missing else f"{what}: {error}".rstrip(".")
        raise BadInput(f"{text}. {_MEND_CREDENTIALS}" if missing or expired else text) from error


def _told(what: str, permissions: str, error: Any) -> str:
    code, message = error.get("Code", ""), error.get("Message", "")
    if code in _EXPIRED:
        return f"the AWS credentials are expired or not valid ({code}). {_MEND_CREDENTIALS}"
    if code in _DENIED:
        return f"{what}: access denied. The caller needs {permissions}"
    if code == "ResourceNotFoundException":
        return f"there is no {what} in this region and account. Check its name, AWS_REGION and AWS_PROFILE"
    if "Throttl" in code or code in ("LimitExceededException", "TooManyRequestsException"):
        return f"{what}: throttled {ATTEMPTS} times ({code}). Try again later, or a shorter --since"
    return f"{what}: {code}: {message}".rstrip(".")
