"""Makes what the probe needs in an account, and removes all of it, whatever happens in between."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Any, NamedTuple

from ..aws.clients import client, refused
from ..aws.layer_zips import LayerZip
from . import functions
from .functions import ProbeFunction
from .side_by_side import side_by_side

PREFIX = "truemem-probe-"
"""How the names of all that is made begin. The run's number follows."""
TIMEOUT_S = 60
ROLE_S, PAUSE_S = 60.0, 2.0
"""How long a new role may be unknown to Lambda, and the pause between two tries."""
REMOVE_S, HASTY_S = 120.0, 8.0
"""Time to remove everything; after Ctrl-C, when the command ends within 10 seconds in any case."""
HALF_MADE_S = 3.0
"""How long AWS may still work on a request that was left without its answer."""
PERMISSIONS = (
    "iam:CreateRole, PutRolePolicy, PassRole, DeleteRolePolicy, DeleteRole, lambda:PublishLayerVersion, "
    "GetLayerVersion, DeleteLayerVersion, CreateFunction, GetFunction, InvokeFunction, DeleteFunction, "
    "logs:CreateLogGroup, FilterLogEvents, DeleteLogGroup"
)
_GONE = ("ResourceNotFoundException", "NoSuchEntity")
_TRUST = {
    "Version": "2012-10-17",
    "Statement": [
        {"Effect": "Allow", "Principal": {"Service": "lambda.amazonaws.com"}, "Action": "sts:AssumeRole"},
    ],
}


class Removal(NamedTuple):
    """How something that was made, or that may have been, is removed again."""

    what: str
    command: str
    """For a person, if `call` has failed."""
    call: Callable[[], object]


class Deployment:
    """Everything of one run. Entering makes it, leaving removes it: `left` says what could not be removed.

    A removal is noted before the thing is made, because the answer to a request may never arrive.
    """

    def __init__(self, layers: Sequence[LayerZip], memory_mib: int, say: Callable[[str], None]) -> None:
        self.name = PREFIX + uuid.uuid4().hex[:8]
        self.log_group = f"/{self.name}"
        self.refusals: dict[tuple[str, ProbeFunction], str] = {}
        """Why Lambda did not make a function, such as one of a runtime that it no longer has."""
        self.left: list[Removal] = []
        self._layers, self._memory_mib, self._say = layers, memory_mib, say
        self._removals: list[Removal] = []
        self._making = False
        self._lambda = client("lambda", read_timeout=TIMEOUT_S + 30)
        self._iam, self._logs = client("iam"), client("logs")
        self.region: str = self._lambda.meta.region_name

    def __enter__(self) -> Deployment:
        """Raises BadInput if AWS refuses. Then everything is removed already."""
        try:
            self._making = True
            with refused(f"probe {self.name} in {self.region}", PERMISSIONS):
                self._make()
            self._making = False
        except BaseException as error:
            self.__exit__(type(error), error, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        hasty = error is not None and not isinstance(error, Exception)
        self._say(f"removing {len(self._removals)} things named {self.name}")
        calls = {each: each.call for each in self._removals}
        if self._making and self._removals:
            last = self._removals[-1]
            calls[last] = partial(_twice, last.call)
        results = side_by_side(calls, HASTY_S if hasty else REMOVE_S)
        self._removals = []
        for removal, result in results.items():
            if isinstance(result, Exception) and _code(result) not in _GONE:
                self.left.append(removal)
                self._say(f"NOT removed: {removal.what}: {' '.join(str(result).split())}. Try {removal.command}")

    def function(self, architecture: str, function: ProbeFunction) -> str:
        """Name of the function in the account."""
        return f"{self.name}-{architecture}-{function.name}"

    def invoke(self, name: str, event: dict[str, Any]) -> dict[str, Any]:
        """Wait until the function can be invoked, and invoke it with the end of its log. Raises botocore's errors."""
        self._lambda.get_waiter("function_active_v2").wait(FunctionName=name, WaiterConfig={"Delay": 1})
        answer: dict[str, Any] = self._lambda.invoke(FunctionName=name, Payload=json.dumps(event), LogType="Tail")
        return answer

    def messages(self) -> list[str]:
        """All lines of the log so far. Raises botocore's errors."""
        pages = self._logs.get_paginator("filter_log_events").paginate(logGroupName=self.log_group)
        return [event["message"] for page in pages for event in page["events"]]

    # --- making -------------------------------------------------------------------------------------------------------

    def _make(self) -> None:
        self._say(f"making a role, a log group, layers and functions named {self.name}, in {self.region}")
        role = self._make_role()
        self._note(
            f"log group {self.log_group}",
            f"aws logs delete-log-group --log-group-name {self.log_group}",
            partial(self._logs.delete_log_group, logGroupName=self.log_group),
        )
        self._logs.create_log_group(logGroupName=self.log_group)
        own = {name: self._publish(name, functions.layer_zip(name)) for name in functions.LAYERS}
        for layer in self._layers:
            truemem = self._publish(layer.architecture, layer.path.read_bytes())
            for function in functions.ALL:
                self._make_function(layer.architecture, function, [truemem, own[function.layer]], role)

    def _make_role(self) -> str:
        """A role that can do nothing but write to the probe's log group. Returns its ARN."""
        self._note(
            f"role {self.name}",
            f"aws iam delete-role-policy --role-name {self.name} --policy-name logs; "
            f"aws iam delete-role --role-name {self.name}",
            self._remove_role,
        )
        made = self._iam.create_role(RoleName=self.name, AssumeRolePolicyDocument=json.dumps(_TRUST))
        group = f"arn:{self._lambda.meta.partition}:logs:{self.region}:*:log-group:{self.log_group}:*"
        statement = {"Effect": "Allow", "Action": ["logs:CreateLogStream", "logs:PutLogEvents"], "Resource": group}
        policy = {"Version": "2012-10-17", "Statement": [statement]}
        self._iam.put_role_policy(RoleName=self.name, PolicyName="logs", PolicyDocument=json.dumps(policy))
        arn: str = made["Role"]["Arn"]
        return arn

    def _remove_role(self) -> None:
        with suppress(self._iam.exceptions.NoSuchEntityException):  # the role may be there all the same
            self._iam.delete_role_policy(RoleName=self.name, PolicyName="logs")
        self._iam.delete_role(RoleName=self.name)

    def _publish(self, kind: str, content: bytes) -> str:
        """Publish the first version of a new layer. Returns its ARN."""
        name = f"{self.name}-{kind}"
        self._note(
            f"layer {name}",
            f"aws lambda delete-layer-version --layer-name {name} --version-number 1",
            partial(self._lambda.delete_layer_version, LayerName=name, VersionNumber=1),
        )
        made = self._lambda.publish_layer_version(LayerName=name, Content={"ZipFile": content})
        arn: str = made["LayerVersionArn"]
        return arn

    def _make_function(self, architecture: str, function: ProbeFunction, layers: list[str], role: str) -> None:
        name = self.function(architecture, function)
        self._note(
            f"function {name}",
            f"aws lambda delete-function --function-name {name}",
            partial(self._lambda.delete_function, FunctionName=name),
        )
        logging: dict[str, str] = {"LogGroup": self.log_group, "LogFormat": "Text"}
        if function.filtered:
            logging |= {"LogFormat": "JSON", "ApplicationLogLevel": "WARN", "SystemLogLevel": "INFO"}
        settings = {
            "FunctionName": name,
            "Runtime": function.runtime,
            "Handler": function.handler,
            "Code": {"ZipFile": functions.code_zip(function)},
            "Layers": layers,
            "Role": role,
            "Architectures": [architecture],
            "MemorySize": self._memory_mib,
            "Timeout": TIMEOUT_S,
            "EphemeralStorage": {"Size": 1024},
            "Environment": {"Variables": dict(function.variables)},
            "LoggingConfig": logging,
        }
        end = time.monotonic() + ROLE_S
        while True:
            try:
                self._lambda.create_function(**settings)
            except self._lambda.exceptions.InvalidParameterValueException as error:
                if "assumed" in str(error) and time.monotonic() < end:
                    time.sleep(PAUSE_S)  # IAM needs some seconds to tell Lambda of a new role
                    continue
                if function is functions.MEASURE:
                    raise
                self.refusals[architecture, function] = str(error)
            return

    def _note(self, what: str, command: str, call: Callable[[], object]) -> None:
        self._removals.append(Removal(what, f"{command} --region {self.region}", call))


def _twice(removal: Callable[[], object]) -> object:
    """Remove a thing that AWS may be about to make: the request for it was cut off."""
    with suppress(Exception):  # the second try says what is wrong
        removal()
    time.sleep(HALF_MADE_S)
    return removal()


def _code(error: Exception) -> str:
    """The code of an answer of AWS, or nothing."""
    code: str = getattr(error, "response", {}).get("Error", {}).get("Code", "")
    return code
