"""Lambda's calls that change a function: one guarded update, and the wait until it is in force; temporary versions."""

from __future__ import annotations

import time
from contextlib import suppress
from datetime import date
from typing import Any

from ..aws.clients import CALLS_PER_S, Pace, client, log_group_named, paced, refused
from ..aws.layer_zips import LayerZip
from ..aws.rollout import publish_layer, published_arn
from ..support.bad_input import BadInput
from .change import Change, FunctionState, as_note, state_of, variables_after
from .platform_diagnosis import log_class_text

IN_FORCE_S = 300
"""Longest wait for one update, in seconds. With a VPC or a large image it takes minutes."""
POLL_S = 1
UPDATE = "lambda:UpdateFunctionConfiguration, lambda:GetFunctionConfiguration, lambda:GetLayerVersion"


class Unsettled(BadInput):
    """The update was sent, and how it ended is not known."""


class NoSuchFunction(BadInput):
    """Raised if there is no function of this name."""


class LambdaCalls:
    """Clients for the regions of the functions, all at one pace."""

    def __init__(self, lambda_pace: Pace | None = None) -> None:
        self._paces = {"lambda": lambda_pace or Pace(CALLS_PER_S), "logs": Pace(CALLS_PER_S)}
        self._clients: dict[tuple[str, str | None], Any] = {}

    def read(self, function: str) -> FunctionState:
        """The state of a function. Raises BadInput; NoSuchFunction if there is none of this name."""
        from botocore.exceptions import ClientError

        try:
            with refused(f"function {function}", "lambda:GetFunctionConfiguration"):
                found = self._client(_region(function)).get_function_configuration(FunctionName=function)
                return state_of(found, date.today())
        except BadInput as error:
            cause = error.__cause__
            if isinstance(cause, ClientError) and cause.response["Error"]["Code"] == "ResourceNotFoundException":
                raise NoSuchFunction(str(error)) from error
            raise

    def notes(self, state: FunctionState) -> list[str]:
        """What a user should know about its aliases and its log group. What may not be read is left out."""
        notes = []
        if stale := self._stale_aliases(state):
            names = ", ".join(stale)
            notes.append(f"alias {names}: a published version does not change. Publish one, and move the alias")
        with suppress(BadInput), refused(state.log_group, "logs:DescribeLogGroups"):
            found = log_group_named(self._client(state.region, "logs"), state.log_group)
            text = log_class_text((found or {}).get("logGroupClass") or "STANDARD", state.variables)
            notes += [as_note(text)] if text else []
        return notes

    def published(self, region: str, layer: LayerZip) -> str | None:
        """ARN of the layer version with this content, if the account has it in this region. Raises BadInput."""
        with refused(f"layer {layer.name} in {region}", "lambda:ListLayerVersions and lambda:GetLayerVersion"):
            return published_arn(self._client(region), layer)

    def publish(self, region: str, layer: LayerZip) -> str:
        """Publish the layer and return its ARN. Raises BadInput."""
        with refused(f"layer {layer.name} in {region}", "lambda:PublishLayerVersion"):
            return publish_layer(self._client(region), layer)

    def update(self, state: FunctionState, change: Change) -> None:
        """Make the change in one call, which Lambda refuses if the function was changed since `state` was read.

        Raises BadInput if it was surely refused, Unsettled if Lambda may have taken it.
        """
        from botocore.exceptions import ClientError, HTTPClientError
        from botocore.parsers import ResponseParserError

        settings: dict[str, Any] = {"RevisionId": state.revision} if state.revision else {}
        if change.layers[0] != change.layers[1]:
            settings["Layers"] = [*change.layers[1]]
        if change.variables:
            settings["Environment"] = {"Variables": variables_after(state.variables, change)}
        if change.memory:
            settings["MemorySize"] = change.memory[-1]
        with refused(f"function {state.name}", UPDATE):
            try:
                self._client(state.region).update_function_configuration(FunctionName=state.arn, **settings)
            except (HTTPClientError, ResponseParserError, AttributeError, TypeError, ValueError) as error:
                # The last three are botocore's for an answer that is not Lambda's.
                raise Unsettled(f"no answer to the update: {error}. Run the same command again") from error
            except ClientError as error:
                code = error.response["Error"]["Code"]
                if error.response["ResponseMetadata"]["HTTPStatusCode"] >= 500:
                    raise Unsettled(f"Lambda has an error of its own ({code}). Run the same command again") from error
                if code == "PreconditionFailedException" and self._is_there(state, change):
                    return  # a first try arrived, and its answer was lost
                if code in _SAID:
                    raise BadInput(_SAID[code]) from error
                raise

    def publish_version(self, state: FunctionState, description: str) -> str:
        """Publish the function as it is, unless it was changed since `state` was read. Returns the version, which is an
        older one with another description if nothing has changed since that. Raises BadInput."""
        guards = {"CodeSha256": state.code, **({"RevisionId": state.revision} if state.revision else {})}
        with refused(f"a version of {state.name}", "lambda:PublishVersion"):
            made = self._client(state.region).publish_version(FunctionName=state.arn, Description=description, **guards)
            version: str = made["Version"]
        self.wait_until_active(state, version)
        return version

    def versions(self, state: FunctionState, description: str) -> list[str]:
        """The published versions with exactly this description. Raises BadInput."""
        with refused(f"versions of {state.name}", "lambda:ListVersionsByFunction"):
            pages = self._client(state.region).get_paginator("list_versions_by_function")
            found = [each for page in pages.paginate(FunctionName=state.arn) for each in page["Versions"]]
        return [
            each["Version"] for each in found if each["Version"].isdecimal() and each.get("Description") == description
        ]

    def delete_version(self, state: FunctionState, version: str) -> None:
        """Raises BadInput if it is not deleted, as while an alias has it."""
        if not version.isdecimal():  # Lambda deletes the whole function if none is named
            raise ValueError(version)
        with refused(f"version {version} of {state.name}", "lambda:DeleteFunction"):
            self._client(state.region).delete_function(FunctionName=state.arn, Qualifier=version)

    def wait_until_active(self, state: FunctionState, version: str = "") -> None:
        """Wait until the update, or the published version, is in force. Raises BadInput if Lambda could not make it,
        Unsettled after 5 minutes."""
        end = time.monotonic() + IN_FORCE_S
        which = {"FunctionName": state.arn, **({"Qualifier": version} if version else {})}
        while True:
            try:
                with refused(f"function {state.name}", "lambda:GetFunctionConfiguration"):
                    now = self._client(state.region).get_function_configuration(**which)
            except BadInput as error:
                raise Unsettled(f"Lambda has taken the update; whether it is in force is not known: {error}") from error
            status = now.get("LastUpdateStatus", "Successful")
            if status == "Failed":
                raise BadInput(
                    f"Lambda could not make the update: {now.get('LastUpdateStatusReason', 'no reason given')}"
                )
            if status != "InProgress" and now.get("State") != "Pending":
                return
            if time.monotonic() > end:
                raise Unsettled(f"still in progress after {IN_FORCE_S // 60} minutes. Look at it later")
            time.sleep(POLL_S)

    def _stale_aliases(self, state: FunctionState) -> list[str]:
        """Aliases of published versions, which no update changes. None are named if they may not be read."""
        with suppress(BadInput), refused(f"aliases of {state.name}", "lambda:ListAliases"):
            pages = self._client(state.region).get_paginator("list_aliases").paginate(FunctionName=state.name)
            aliases = [alias for page in pages for alias in page["Aliases"]]
            return [each["Name"] for each in aliases if each["FunctionVersion"] != "$LATEST"]
        return []

    def _is_there(self, state: FunctionState, change: Change) -> bool:
        now = self.read(state.arn)
        memory = (change.memory or (state.memory,))[-1]
        after = (change.layers[1], variables_after(state.variables, change), memory)
        return (now.layers, now.variables, now.memory) == after

    def _client(self, region: str | None, service: str = "lambda") -> Any:
        if (service, region) not in self._clients:
            settings: dict[str, Any] = {"region_name": region} if region else {}
            self._clients[service, region] = paced(client(service, **settings), self._paces[service])
        return self._clients[service, region]


_SAID = {
    "PreconditionFailedException": "it was changed by another while this command ran: left as it is. Run it again",
    "ResourceConflictException": "another update is in progress: left as it is. Try again later",
}


def _region(function: str) -> str | None:
    """The region of an ARN; None for a name, which is of the caller's region."""
    return function.split(":")[3] if function.startswith("arn:") else None
