"""boto3 clients that wait when they are throttled, and AWS's refusals as one line with a fix."""

from __future__ import annotations

import os
import re
import shlex
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from ..support import docs_link
from ..support.bad_input import BadInput

CALLS_PER_S = 10
"""Requests to Lambda each second. It permits 15 for all of an account's control plane calls (Lambda quotas, "Rest of
the control plane API requests"), which deployments need as well."""


class Pace:
    """Delays each request until its turn. Retries count too: they are requests like any other."""

    def __init__(
        self, per_s: float, clock: Callable[[], float] = time.monotonic, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._interval, self._clock, self._sleep = 1 / per_s, clock, sleep
        self._turn = clock()

    def wait(self, **_: Any) -> None:
        """Wait for the turn of the next request. botocore calls it before it sends one."""
        now = self._clock()
        turn = max(self._turn, now)
        self._turn = turn + self._interval
        if turn > now:
            self._sleep(turn - now)


def paced(client: Any, pace: Pace) -> Any:
    """The client, its requests at this pace."""
    client.meta.events.register("before-send", pace.wait)
    return client


ATTEMPTS = 10
"""Attempts if AWS answers that it is busy, with exponential back-off and jitter (botocore's `standard` mode)."""
UNANSWERED_ATTEMPTS = 2
"""Attempts if no answer comes at all."""
CONNECT_S = 5
"""Time to connect, in seconds, for each address of the host name."""
FUNCTION_ARN = re.compile(r"arn:aws[\w-]*:lambda:[\w-]+:\d{12}:function:[\w-]{1,64}", re.ASCII)
"""A function's ARN without a qualifier."""
_NOT_EXTENDED = re.compile(r"arn:aws[\w-]*:lambda:[^:]*:[^:]*:(web-function/|microvm-image:)", re.ASCII)
_NO_EXTENSION = f"in a Web Function or a MicroVM Lambda starts no extension ({docs_link.command('platforms')})"
_EXPIRED = (
    "ExpiredToken",
    "ExpiredTokenException",
    "RequestExpired",
    "InvalidClientTokenId",
    "UnrecognizedClientException",
)
_DENIED = ("AccessDenied", "AccessDeniedException", "UnauthorizedOperation")
_FIX_REGION = "Try aws configure set region eu-west-1, or set the variable AWS_REGION"
_FIX_CREDENTIALS = "Try aws sso login, or aws configure; AWS_PROFILE chooses one"
_FIX_PROXY = "the answer is not from AWS. Check HTTPS_PROXY and AWS_ENDPOINT_URL"


def client(service: str, *, attempts: int = ATTEMPTS, unanswered: int = UNANSWERED_ATTEMPTS, **settings: Any) -> Any:
    """Make a client of the caller's region and credentials; `region_name` names another region.

    With one of `attempts` no request is sent twice; with one of `unanswered`, none that may have arrived.

    Raises BadInput if there is no region.
    """
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError

    retries = {"mode": "standard", "total_max_attempts": attempts}
    config = Config(retries=retries, connect_timeout=CONNECT_S, **settings)  # type: ignore[arg-type]
    try:
        made: Any = _session().client(service, config=config)
    except BotoCoreError as error:
        fix = _FIX_REGION if "region" in str(error) else _FIX_CREDENTIALS
        raise BadInput(f"{_sentence(error)} {fix}") from error
    except ValueError as error:  # botocore's for a URL that is none
        raise BadInput(f"{_sentence(error)} Check AWS_ENDPOINT_URL") from error
    made.meta.events.register_first(
        f"needs-retry.{made.meta.service_model.service_id.hyphenize()}", _RetryLimit(min(attempts, unanswered)).check
    )
    return made


def _session() -> Any:
    """A session that also reads AWS_REGION, as AWS's other tools do. boto3 itself reads only AWS_DEFAULT_REGION."""
    import boto3

    return boto3.Session(region_name=os.environ.get("AWS_REGION") or None)


class _RetryLimit:
    """Ends hopeless retries of one client early, and warns once about throttling."""

    def __init__(self, unanswered: int) -> None:
        self._warned = False
        self._unanswered = unanswered

    def check(self, attempts: int, caught_exception: Exception | None, response: Any, **_: Any) -> None:
        from botocore.exceptions import ConnectTimeoutError

        if caught_exception is not None:
            if attempts >= self._unanswered or isinstance(caught_exception, ConnectTimeoutError):
                raise caught_exception
        elif response and throttled(response[1].get("Error", {}).get("Code", "")) and not self._warned:
            self._warned = True
            click.echo("truemem: AWS throttles the requests; truemem waits and tries again", err=True)


@contextmanager
def refused(what: str, permissions: str, region: str | None = None) -> Iterator[None]:
    """Turn botocore's errors into BadInput, and KeyError, which an answer that is not AWS's causes.

    `region` is where the call goes, if that is not the caller's own region.
    """
    from botocore.exceptions import BotoCoreError, ClientError, ConnectionError, HTTPClientError
    from botocore.parsers import ResponseParserError

    try:
        yield
    except ClientError as error:
        raise BadInput(_refusal_text(what, permissions, region, error.response.get("Error", {}))) from error
    except (KeyError, ResponseParserError) as error:
        raise BadInput(f"{what}: {_FIX_PROXY}") from error
    except (ConnectionError, HTTPClientError) as error:
        where = region or _session().region_name
        if where not in _known_regions() and "AWS_ENDPOINT_URL" not in os.environ:
            raise BadInput(f"{what}: no region is called {where}. {_FIX_REGION}") from error
        fix = f"Check the network, and the region {where}. Try AWS_REGION, HTTPS_PROXY"
        raise BadInput(f"{what}: {_sentence(error)} {fix}") from error
    except BotoCoreError as error:
        missing = type(error).__name__ in ("NoCredentialsError", "PartialCredentialsError", "TokenRetrievalError")
        expired = "SSO" in type(error).__name__ or "Token" in type(error).__name__
        text = "there are no AWS credentials" if missing else f"{what}: {_sentence(error).rstrip('.')}"
        raise BadInput(f"{text}. {_FIX_CREDENTIALS}" if missing or expired else text) from error


def _known_regions() -> set[str]:
    session = _session()
    return {
        name for part in session.get_available_partitions() for name in session.get_available_regions("lambda", part)
    }


def throttled(code: str) -> bool:
    return "Throttl" in code or code in ("LimitExceededException", "TooManyRequestsException")


def name_of(function: str) -> str:
    """The function's bare name, from an ARN (whole or from the account on), NAME:QUALIFIER, or /aws/lambda/NAME."""
    parts = function.removeprefix("/aws/lambda/").split(":")
    return parts[parts.index("function") + 1] if "function" in parts[1:-1] else parts[0]


def check_extended(arn: str) -> None:
    """Raises BadInput for the ARN of a Web Function or a MicroVM's image."""
    if _NOT_EXTENDED.match(arn):
        raise BadInput(f"{arn}: {_NO_EXTENSION}, so nothing can be measured")


def configuration_of(function: str, asked: Any = None) -> Any:
    """The function's configuration in Lambda. Raises botocore's errors; KeyError if the answer is not Lambda's;
    BadInput as `check_extended`.

    For many functions pass a client of Lambda as `asked`: to make one takes longer than to ask.
    """
    check_extended(function)
    asked = asked or client("lambda")
    found = asked.get_function_configuration(FunctionName=function.removeprefix("/aws/lambda/"))
    found["FunctionName"]  # an answer without it is not Lambda's
    return found


def log_group_in(configuration: Any, function: str) -> str:
    """The function's log group: the configured one, or Lambda's default."""
    group: str = configuration.get("LoggingConfig", {}).get("LogGroup") or f"/aws/lambda/{name_of(function)}"
    return group


def log_group_named(logs: Any, name: str) -> Any:
    """What CloudWatch Logs says about this log group, or None if there is none. Raises botocore's errors."""
    groups = logs.describe_log_groups(logGroupNamePrefix=name)["logGroups"]
    return next((each for each in groups if each["logGroupName"] == name), None)


def log_group_of(function: str) -> str:
    """Ask Lambda for the log group. Returns Lambda's default if that is refused, or if the function no longer exists.

    The caller needs lambda:GetFunctionConfiguration. Raises BadInput.
    """
    with refused(f"function {function}", "lambda:GetFunctionConfiguration"):
        from botocore.exceptions import ClientError

        try:
            return log_group_in(configuration_of(function), function)
        except ClientError:
            return log_group_in({}, function)


def list_functions(region: str | None = None) -> str:
    """The command that shows which functions there are, in the caller's region if none is named."""
    where = region or _session().region_name
    return f"aws lambda list-functions --region {where} --query 'Functions[].FunctionName'"


def _refusal_text(what: str, permissions: str, region: str | None, error: Any) -> str:
    code, message = error.get("Code", ""), _sentence(error.get("Message", ""))
    if code in _EXPIRED and region is not None:  # AWS answers the same where the account has not enabled the region
        return f"{what}: {code}. Check that the region is enabled for the account. {_FIX_CREDENTIALS}"
    if code in _EXPIRED:
        return f"the AWS credentials are expired or not valid ({code}). {_FIX_CREDENTIALS}"
    if code in _DENIED:
        return f"{what}: access denied. The caller needs {permissions}"
    if code == "ResourceNotFoundException":
        region = region or _session().region_name
        text = f"there is no {what} in this region and account ({region})"
        if what.startswith("function "):
            return f"{text}; {_NO_EXTENSION}. Try {list_functions(region)}"
        name = what.removeprefix("log group /aws/lambda/")
        return f"{text}. Try {f'truemem doctor {shlex.quote(name)}' if name != what else list_functions(region)}"
    if throttled(code):
        return (
            f"{what}: throttled {ATTEMPTS} times ({code}). Try again later, or less at a time (--since, --concurrency)"
        )
    if message.lstrip().startswith("<"):
        return f"{what}: {code}: {_FIX_PROXY}"
    return f"{what}: {code}: {message}".rstrip(": .")


def _sentence(error: object) -> str:
    """A text on one line, with its full stop."""
    return f"{' '.join(str(error).split()).rstrip('.')}."


_SCHEME = re.compile(r"([a-z][a-z0-9+.-]+):/(?!/)")


def object_uri(path: Path) -> str:
    """The path as it was typed: `s3://bucket/key` has lost a slash as a Path. A path without a scheme as it is."""
    return _SCHEME.sub(r"\1://", str(path), count=1)


def is_object(path: Path) -> bool:
    """True if the path names an object in S3."""
    return object_uri(path).startswith(("s3://", "s3a://"))


def put_object(path: Path, content: str) -> None:
    """Write an object. Raises BadInput if it cannot be written."""
    bucket, _, key = object_uri(path).partition("://")[2].partition("/")
    with refused(f"{object_uri(path)} cannot be written", "s3:PutObject"):
        client("s3").put_object(Bucket=bucket, Key=key, Body=content.encode())
