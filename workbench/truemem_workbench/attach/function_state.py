"""What Lambda says about one function, as far as attaching the layer depends on it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class FunctionState(NamedTuple):
    """A function's configuration, from Lambda's GetFunctionConfiguration."""

    name: str
    arn: str
    """Without a qualifier."""
    revision: str | None
    """Changes with each update: an update that names it is refused if another one came first."""
    runtime: str
    """Such as python3.13; empty for a container image."""
    architecture: str
    image: bool
    layers: tuple[str, ...]
    """ARNs of layer versions, in their order."""
    zipped_bytes: int
    """Of code and layers together."""
    variables: Mapping[str, str]
    unreadable: str | None
    """Why the variables could not be read: they must not be written then."""
    busy: str | None
    """Why the function takes no update now."""
    failed: str | None
    """Why its last update failed: what its configuration says is not in force then."""
    managed: bool
    """On Managed Instances: only published versions run."""
    log_format: str
    log_level: str
    log_group: str

    @property
    def region(self) -> str:
        return self.arn.split(":")[3]

    def layer_arn(self, name: str, version: str) -> str:
        """ARN of a layer version of the function's own account and region."""
        partition, _, region, account = self.arn.split(":")[1:5]
        return f"arn:{partition}:lambda:{region}:{account}:layer:{name}:{version}"


def state_of(configuration: Mapping[str, Any]) -> FunctionState:
    """Read the answer. Raises KeyError if it is not Lambda's."""
    environment = configuration.get("Environment") or {}
    error = environment.get("Error")
    logging = configuration.get("LoggingConfig") or {}
    layers = configuration.get("Layers") or ()
    name = configuration["FunctionName"]
    return FunctionState(
        name=name,
        arn=":".join(configuration["FunctionArn"].split(":")[:7]),
        revision=configuration.get("RevisionId"),
        runtime=configuration.get("Runtime") or "",
        architecture=(configuration.get("Architectures") or ["x86_64"])[0],
        image=configuration.get("PackageType") == "Image",
        layers=tuple(layer["Arn"] for layer in layers),
        zipped_bytes=sum(each.get("CodeSize") or 0 for each in (configuration, *layers)),
        variables=environment.get("Variables") or {},
        unreadable=f"{error.get('ErrorCode')}: {error.get('Message')}" if error else None,
        busy=_busy(configuration),
        failed=_failed(configuration),
        managed="CapacityProviderConfig" in configuration,
        log_format=logging.get("LogFormat") or "Text",
        log_level=logging.get("ApplicationLogLevel") or "",
        log_group=logging.get("LogGroup") or f"/aws/lambda/{name}",
    )


def _busy(configuration: Mapping[str, Any]) -> str | None:
    if configuration.get("State") == "Pending":
        return "it is being created"
    if configuration.get("LastUpdateStatus") == "InProgress":
        return "another update is in progress"
    if configuration.get("State") == "Failed":
        return f"its state is Failed: {configuration.get('StateReason', 'Lambda gives no reason')}"
    return None


def _failed(configuration: Mapping[str, Any]) -> str | None:
    if configuration.get("LastUpdateStatus") != "Failed":
        return None
    reason = configuration.get("LastUpdateStatusReason", "Lambda gives no reason")
    return f"its last update failed: {reason}. Repair it, and try again"
