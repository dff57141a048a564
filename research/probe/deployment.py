"""Makes what the probe needs in an account, and removes all of it, whatever happens in between."""

from __future__ import annotations

import json
import queue
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from types import TracebackType
from typing import Any, NamedTuple, TypeVar

from truemem_workbench.aws.clients import client, refused
from truemem_workbench.aws.layer_zips import ARCHITECTURES, LayerZip

from . import functions
from .functions import ProbeFunction

K = TypeVar("K")
T = TypeVar("T")

TIMEOUT_S = 60
"""Timeout of each function."""
GIVEN_UP_S = 3.0
"""How long AWS may still work on a request whose answer was not waited for."""
_GONE = ("ResourceNotFoundException", "NoSuchEntity")

Say = Callable[[str], None]


class Removal(NamedTuple):
    """How one thing is removed."""

    what: str
    command: str
    """For a person, if `call` has failed."""
    call: Callable[[], object]

    def again(self) -> Removal:
        """The same for a thing that AWS may be about to make: twice, with a pause."""
        return self._replace(call=partial(_twice, self.call))


class Run:
    """The names of all that one run makes, and how each is removed."""

    def __init__(self, name: str) -> None:
        """Raises BadInput without a region."""
        self.name, self.log_group = name, f"/{name}"
        self.awslambda = client("lambda", read_timeout=TIMEOUT_S + 30)
        self.iam, self.logs = client("iam"), client("logs")

    def function_name(self, architecture: str, function: ProbeFunction) -> str:
        return f"{self.name}-{architecture}-{function.name}"

    def layer_name(self, kind: str) -> str:
        """Name of a layer. `kind` is an architecture or one of functions.LAYERS."""
        return f"{self.name}-{kind}"

    def role(self) -> Removal:
        policy, role = f"--role-name {self.name} --policy-name logs", f"--role-name {self.name}"
        command = f"aws iam delete-role-policy {policy}; aws iam delete-role {role}"
        return Removal(f"role {self.name}", command, self._remove_role)

    def group(self) -> Removal:
        call = partial(self.logs.delete_log_group, logGroupName=self.log_group)
        return self._removal(f"log group {self.log_group}", "logs delete-log-group --log-group-name", call)

    def layer(self, kind: str) -> Removal:
        """Removal of the one version. Lambda does not mind if there is none."""
        call = partial(self.awslambda.delete_layer_version, LayerName=self.layer_name(kind), VersionNumber=1)
        command = "lambda delete-layer-version --version-number 1 --layer-name"
        return self._removal(f"layer {self.layer_name(kind)}", command, call)

    def function(self, architecture: str, function: ProbeFunction) -> Removal:
        name = self.function_name(architecture, function)
        call = partial(self.awslambda.delete_function, FunctionName=name)
        return self._removal(f"function {name}", "lambda delete-function --function-name", call)

    def everything(self) -> list[Removal]:
        """Removals of all that the run can have made."""
        layers = [self.layer(kind) for kind in (*functions.LAYERS, *ARCHITECTURES)]
        made = [self.function(architecture, each) for architecture in ARCHITECTURES for each in functions.ALL]
        return [*made, *layers, self.group(), self.role()]

    def _removal(self, what: str, command: str, call: Callable[[], object]) -> Removal:
        _, name = what.rsplit(maxsplit=1)
        return Removal(what, f"aws {command} {name} --region {self.awslambda.meta.region_name}", call)

    def _remove_role(self) -> None:
        with suppress(self.iam.exceptions.NoSuchEntityException):  # the role may be there all the same
            self.iam.delete_role_policy(RoleName=self.name, PolicyName="logs")
        self.iam.delete_role(RoleName=self.name)


def remove(removals: Sequence[Removal], limit_s: float, say: Say) -> list[Removal]:
    """Remove all, side by side. Names each that could not be removed within so many seconds, and returns them."""
    results: dict[Removal, Any] = side_by_side({each: each.call for each in removals}, limit_s)
    left = []
    for removal, result in results.items():
        code = getattr(result, "response", {}).get("Error", {}).get("Code") if isinstance(result, Exception) else None
        if isinstance(result, Exception) and code not in _GONE:
            left.append(removal)
            say(f"NOT removed: {removal.what}: {' '.join(str(result).split())}. Try {removal.command}")
    return left


WORKERS = 8
"""Below 10, the concurrent invocations that a new account has."""


def side_by_side(calls: Mapping[K, Callable[[], T]], limit_s: float = 600) -> dict[K, T | Exception]:
    """Return what each call returned or raised; TimeoutError for those not done after so many seconds.

    The threads end with the program: Ctrl-C need not wait for a request.
    """
    todo: queue.SimpleQueue[K] = queue.SimpleQueue()
    done: queue.SimpleQueue[tuple[K, T | Exception]] = queue.SimpleQueue()
    for key in calls:
        todo.put(key)

    def work() -> None:
        while True:
            try:
                key = todo.get_nowait()
            except queue.Empty:
                return
            try:
                done.put((key, calls[key]()))
            except Exception as error:
                done.put((key, error))

    for _ in range(min(WORKERS, len(calls))):
        threading.Thread(target=work, daemon=True).start()
    results: dict[K, T | Exception] = {}
    end = time.monotonic() + limit_s
    while len(results) < len(calls):
        try:
            key, result = done.get(timeout=max(0.0, end - time.monotonic()))
        except queue.Empty:
            break
        results[key] = result
    return {key: results.get(key, TimeoutError(f"not done after {limit_s:g} s")) for key in calls}


def _twice(call: Callable[[], object]) -> object:
    with suppress(Exception):  # the second try says what is wrong
        call()
    time.sleep(GIVEN_UP_S)
    return call()


PREFIX = "truemem-probe-"
"""How the name of a run begins, and so the names of all that it makes. A random number follows."""
ROLE_S, PAUSE_S = 60.0, 2.0
"""How long a new role may be unknown to Lambda, and the pause between two tries."""
REMOVE_S, HASTY_S = 120.0, 8.0
"""Time to remove everything; after Ctrl-C, when the command ends within 10 seconds in any case."""
PERMISSIONS = (
    "iam:CreateRole, PutRolePolicy, PassRole, DeleteRolePolicy, DeleteRole, lambda:PublishLayerVersion, "
    "GetLayerVersion, DeleteLayerVersion, CreateFunction, PublishVersion, GetFunction, InvokeFunction, DeleteFunction, "
    "logs:CreateLogGroup, FilterLogEvents, DeleteLogGroup"
)
_ALLOWED = {"Effect": "Allow", "Principal": {"Service": "lambda.amazonaws.com"}, "Action": "sts:AssumeRole"}
_TRUST = {"Version": "2012-10-17", "Statement": [_ALLOWED]}


class Deployment:
    """Everything of one run. Entering makes it, leaving removes it: `left` says what could not be removed."""

    def __init__(
        self, layers: Sequence[LayerZip], memory_mib: int, say: Say, more: Mapping[str, Sequence[ProbeFunction]] = {}
    ) -> None:
        """`more`: functions by architecture, beside those of each run. Raises BadInput without a region."""
        self.run = Run(PREFIX + uuid.uuid4().hex[:8])
        self.refusals: dict[tuple[str, ProbeFunction], str] = {}
        """Why Lambda did not make a function, such as one of a runtime that it no longer has."""
        self.left: list[Removal] = []
        self.functions = {each.architecture: (*more.get(each.architecture, ()), *functions.ALWAYS) for each in layers}
        """By architecture."""
        self._layers, self._memory_mib, self._say = layers, memory_mib, say
        self._removals: list[Removal] = []
        self._lambda, self._iam, self._logs = self.run.awslambda, self.run.iam, self.run.logs
        self.region: str = self._lambda.meta.region_name

    def __enter__(self) -> Deployment:
        """Raises BadInput if AWS refuses. Then everything is removed already."""
        try:
            with refused(f"probe {self.run.name} in {self.region}", PERMISSIONS):
                self._make()
        except BaseException as error:
            self.__exit__(type(error), error, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        hasty = error is not None and not isinstance(error, Exception)
        self._say(f"removing {len(self._removals)} things named {self.run.name}")
        self.left = remove(self._removals, HASTY_S if hasty else REMOVE_S, self._say)

    def invoke(self, name: str, version: str | None, event: dict[str, Any]) -> dict[str, Any]:
        """Wait until the function, or its version, can be invoked, and invoke it with the end of its log. Raises
        botocore's errors."""
        asked = {"FunctionName": name, **({"Qualifier": version} if version else {})}
        self._lambda.get_waiter("function_active_v2").wait(**asked, WaiterConfig={"Delay": 1})
        answer: dict[str, Any] = self._lambda.invoke(**asked, Payload=json.dumps(event), LogType="Tail")
        return answer

    def lines(self) -> list[tuple[str, str]]:
        """The log so far: stream and text of each line. Raises botocore's errors."""
        pages = self._logs.get_paginator("filter_log_events").paginate(logGroupName=self.run.log_group)
        return [(event["logStreamName"], event["message"]) for page in pages for event in page["events"]]

    # --- making -------------------------------------------------------------------------------------------------------

    def _make(self) -> None:
        self._say(f"making a role, a log group, layers and functions named {self.run.name}, in {self.region}")
        role = self._make_role()
        with self._noted(self.run.group()):
            self._logs.create_log_group(logGroupName=self.run.log_group)
        own = {name: self._publish(name, functions.layer_zip(name)) for name in functions.LAYERS}
        for layer in self._layers:
            truemem = self._publish(layer.architecture, layer.path.read_bytes())
            for function in self.functions[layer.architecture]:
                with self._noted(self.run.function(layer.architecture, function)):
                    self._make_function(layer.architecture, function, [truemem, own[function.layer]], role)

    @contextmanager
    def _noted(self, removal: Removal) -> Iterator[None]:
        """Note how a thing is removed before it is made: the answer to the request may never arrive."""
        from botocore.exceptions import ClientError, EndpointConnectionError, NoCredentialsError

        self._removals.append(removal)
        try:
            yield
        except (ClientError, EndpointConnectionError, NoCredentialsError) as error:
            status = getattr(error, "response", {}).get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
            if status < 500:
                self._removals.remove(removal)  # it was surely not made
            raise
        except BaseException:
            self._removals[-1] = removal.again()
            raise

    def _make_role(self) -> str:
        """A role that can do nothing but write to the probe's log group. Returns its ARN."""
        name = self.run.name
        with self._noted(self.run.role()):
            made = self._iam.create_role(RoleName=name, AssumeRolePolicyDocument=json.dumps(_TRUST))
        group = f"arn:{self._lambda.meta.partition}:logs:{self.region}:*:log-group:{self.run.log_group}:*"
        statement = {"Effect": "Allow", "Action": ["logs:CreateLogStream", "logs:PutLogEvents"], "Resource": group}
        policy = {"Version": "2012-10-17", "Statement": [statement]}
        self._iam.put_role_policy(RoleName=name, PolicyName="logs", PolicyDocument=json.dumps(policy))
        arn: str = made["Role"]["Arn"]
        return arn

    def _publish(self, kind: str, content: bytes) -> str:
        """Publish the first version of a new layer. Returns its ARN."""
        with self._noted(self.run.layer(kind)):
            made = self._lambda.publish_layer_version(LayerName=self.run.layer_name(kind), Content={"ZipFile": content})
        arn: str = made["LayerVersionArn"]
        return arn

    def _make_function(self, architecture: str, function: ProbeFunction, layers: list[str], role: str) -> None:
        settings = {
            "FunctionName": self.run.function_name(architecture, function),
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
            "LoggingConfig": {"LogGroup": self.run.log_group, **functions.log_settings(function)},
            **function.settings,
        }
        settings = {name: value for name, value in settings.items() if value is not None}
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
