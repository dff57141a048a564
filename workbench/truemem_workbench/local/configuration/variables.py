"""The environment variables that Lambda gives to extensions and to the function. Pure."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, replace
from pathlib import Path

from .function import Function
from .settings import Settings

REGION = "us-east-1"
ACCOUNT = "123456789012"
VERSION = "$LATEST"
CREDENTIALS = {
    "AccessKeyId": "local",
    "SecretAccessKey": "local",
    "Token": "local",
    "Expiration": "2099-01-01T00:00:00Z",
}
CREDENTIALS_PATH = "/2021-04-23/credentials"
"""Path of the credentials on the Runtime API's port. Only SnapStart uses it."""
CREDENTIALS_TOKEN = "local"


@dataclass(frozen=True)
class Place:
    """Addresses and folders of one environment on this machine."""

    runtime_api: str
    """`host:port`, without a scheme."""
    log_stream: str
    path: str
    """Value of PATH. It begins with our own interpreter's folder, so that all processes have the same `python3`."""
    tmp: str
    """Folder in place of Lambda's /tmp. Processes get it as TMPDIR, and it is removed at the end."""
    log_socket: Path | None = None
    """Socket at which the workers of a runtime get a log stream each. Only on Managed Instances."""


def function_arn(name: str, qualifier: str | None = None) -> str:
    arn = f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:{name}"
    return f"{arn}:{qualifier}" if qualifier else arn


def extension_variables(settings: Settings, place: Place) -> dict[str, str]:
    """Variables of an extension: without handler, task root, log group, log stream, and names that begin with `_`.

    AWS documents the names that are withheld; the code removes every key that begins with `_`. PATH, LANG and TMPDIR
    are not in the classic code's list; on a developer's machine an extension needs them to find its interpreter.
    """
    customer = {key: value for key, value in settings.environment.items() if not key.startswith("_")}
    return _shared(settings, place) | customer | _platform(settings, place)


def function_variables(function: Function, settings: Settings, place: Place) -> dict[str, str]:
    """Variables of the function's process. The host's own environment is not passed on."""
    own = {
        "_HANDLER": function.handler,
        "LAMBDA_TASK_ROOT": str(function.task_root),
        "LAMBDA_RUNTIME_DIR": "/var/runtime",
    }
    if settings.initialization != "snap-start":  # one process would go on in many log streams
        own["AWS_LAMBDA_LOG_GROUP_NAME"] = f"/aws/lambda/{settings.name}"
        own["AWS_LAMBDA_LOG_STREAM_NAME"] = place.log_stream
    if function.runtime:
        own["AWS_EXECUTION_ENV"] = f"AWS_Lambda_{function.runtime}"
    if settings.managed_instances:
        own["AWS_LAMBDA_MAX_CONCURRENCY"] = str(settings.managed_instances)  # extensions do not get it
    if place.log_socket:
        own["_LAMBDA_TELEMETRY_LOG_FD_PROVIDER_SOCKET"] = str(place.log_socket)
    if function.python and function.python != Path(
        sys.executable
    ):  # a handler that starts `python3` gets its own interpreter
        place = replace(place, path=f"{function.python.parent}{os.pathsep}{place.path}")
    return (
        _shared(settings, place)
        | dict(settings.environment)
        | dict(function.variables)
        | _platform(settings, place)
        | own
    )


def _shared(settings: Settings, place: Place) -> dict[str, str]:
    """Variables that the user's own settings may replace."""
    return {
        "PATH": place.path,
        "LANG": "C.UTF-8",
        "TZ": ":UTC",
        "TMPDIR": place.tmp,
        **_credentials(settings, place),
        "AWS_REGION": REGION,
        "AWS_DEFAULT_REGION": REGION,
        "AWS_LAMBDA_LOG_FORMAT": settings.log_format,
    }


def _credentials(settings: Settings, place: Place) -> dict[str, str]:
    """Credentials without any rights: boto3 needs some to make a client."""
    if settings.initialization == "snap-start":
        return {
            "AWS_CONTAINER_CREDENTIALS_FULL_URI": f"http://{place.runtime_api}{CREDENTIALS_PATH}",
            "AWS_CONTAINER_AUTHORIZATION_TOKEN": CREDENTIALS_TOKEN,
        }
    return {
        "AWS_ACCESS_KEY_ID": CREDENTIALS["AccessKeyId"],
        "AWS_SECRET_ACCESS_KEY": CREDENTIALS["SecretAccessKey"],
        "AWS_SESSION_TOKEN": CREDENTIALS["Token"],
    }


def _platform(settings: Settings, place: Place) -> dict[str, str]:
    return {
        "AWS_LAMBDA_FUNCTION_NAME": settings.name,
        "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": str(settings.memory_mib),
        "AWS_LAMBDA_FUNCTION_VERSION": VERSION,
        "AWS_LAMBDA_INITIALIZATION_TYPE": settings.initialization_type,
        "AWS_LAMBDA_RUNTIME_API": place.runtime_api,
    }
