"""A change of one function's layers, variables and memory size, its record, and how it is undone. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date
from typing import Any, NamedTuple

from ..aws.layer_zips import is_ours
from ..support import web_adapter
from ..support.document import known_members
from .platform_diagnosis import diagnose_settings


class FunctionState(NamedTuple):
    """A function's configuration, from Lambda's GetFunctionConfiguration."""

    name: str
    arn: str
    """The function's ARN, without a qualifier."""
    revision: str | None
    """Changes with each update: an update that names it is refused if another one came first."""
    runtime: str
    """Identifier of the runtime, such as python3.13; empty for a container image."""
    architecture: str
    image: bool
    layers: tuple[str, ...]
    """ARNs of layer versions, in their order."""
    zipped_bytes: int
    """Size of code and layers together, zipped."""
    variables: Mapping[str, str]
    unreadable: str | None
    """Why the variables could not be read: they must not be written then."""
    busy: str | None
    """Why the function takes no update now."""
    failed: str | None
    """Why its last update failed: what its configuration says is not in force then."""
    managed: bool
    """True on Managed Instances, where only published versions run."""
    at_once: int | None
    """Requests at once in an environment there, if the function says it."""
    log_group: str
    memory: int
    """Memory size in MB."""
    timeout_s: int
    code: str
    """Hash of the code."""
    snapstart: bool
    """True with SnapStart: each version that is published makes a snapshot."""
    notes: tuple[str, ...]
    """What its settings on the platform mean for truemem."""

    @property
    def region(self) -> str:
        return self.arn.split(":")[3]

    def layer_arn(self, name: str, version: str) -> str:
        """ARN of a layer version of the function's own account and region."""
        partition, _, region, account = self.arn.split(":")[1:5]
        return f"arn:{partition}:lambda:{region}:{account}:layer:{name}:{version}"


def state_of(configuration: Mapping[str, Any], today: date) -> FunctionState:
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
        at_once=of_provider(configuration).get("PerExecutionEnvironmentMaxConcurrency"),
        log_group=logging.get("LogGroup") or f"/aws/lambda/{name}",
        memory=configuration.get("MemorySize") or 128,
        timeout_s=configuration.get("Timeout") or 3,
        code=configuration.get("CodeSha256") or "",
        snapstart=(configuration.get("SnapStart") or {}).get("ApplyOn") == "PublishedVersions",
        notes=tuple(as_note(each.text) for each in diagnose_settings(configuration, today)),
    )


def of_provider(configuration: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a function on Managed Instances says of its environments; empty elsewhere."""
    provider = configuration.get("CapacityProviderConfig") or {}
    return provider.get("LambdaManagedInstancesCapacityProviderConfig") or {}


def as_note(text: str) -> str:
    """A sentence as it stands in a list of notes."""
    return text[:1].lower() + text[1:].rstrip(".")


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


WRAPPER, CHAINED_WRAPPER = "AWS_LAMBDA_EXEC_WRAPPER", "TRUEMEM_EXEC_WRAPPER"
EXACT_WRAPPER = "/opt/truemem/exact"
"""Our wrapper; a function without the layer does not start with it."""
PYTHON_PATH, HEAP_FOLDER = "PYTHONPATH", "/opt/truemem/python"
"""The heap probe is loaded from this folder, which is first on the path."""
DEFAULT_PYTHON_PATH = "/var/runtime"
"""Lambda's own value ("Defined runtime environment variables"), which a value of ours replaces."""
NODE_OPTIONS, PRELOAD = "NODE_OPTIONS", "--require /opt/truemem/heap.cjs"
"""The heap probe of Node.js; a function without the layer does not start with it."""
PRELOAD_OPTION = re.compile(r"(?:^|\s)--require(?:\s+|=)/opt/truemem/heap\.cjs(?=\s|$)")
COLLECTOR_CONFIG, CLOUDWATCH = "OPENTELEMETRY_COLLECTOR_CONFIG_URI", "/opt/truemem/cloudwatch.yaml"
"""A collector's configuration; one that names a file which is not there does not start, nor does its function."""
PREFIX = "TRUEMEM_"
LINES = f"{PREFIX}LINES"
"""In which environments the lines of code that keep memory are profiled: `off`, `on`, or a share such as `10%`."""

Layers = tuple[str, ...]
Values = Mapping[str, tuple[str | None, str | None]]
"""Variables that change: the value before and after. None: not set."""


class Change(NamedTuple):
    """What one update does. Variables that are not named stay as they are."""

    layers: tuple[Layers, Layers]
    """The function's layers before and after."""
    variables: Values
    memory: tuple[int, ...] = ()
    """Memory sizes in MB: the one before, then each that is set, the last for good. Empty: it stays as it is."""

    @property
    def empty(self) -> bool:
        return self.layers[0] == self.layers[1] and not self.variables and len({*self.memory}) < 2

    def document(self) -> dict[str, Any]:
        """The change as JSON, as it is in the file of records, and for machines."""
        pairs = {name: {"before": before, "after": after} for name, (before, after) in self.variables.items()}
        memory = {"memory": [*self.memory]} if self.memory else {}
        return {"layers": {"before": [*self.layers[0]], "after": [*self.layers[1]]}, "variables": pairs, **memory}


def from_document(document: Any) -> Change:
    """Parse what `document` made. Raises KeyError, TypeError, AttributeError or ValueError for anything else."""
    pairs = {name: (pair["before"], pair["after"]) for name, pair in document["variables"].items()}
    before, after = (tuple(map(str, document["layers"][when])) for when in ("before", "after"))
    for value in (each for pair in pairs.values() for each in pair):
        if not isinstance(value, str | None):
            raise TypeError(f"{value!r} is no value of a variable")
    return Change((before, after), pairs, tuple(map(int, document.get("memory", ()))))


def change_of_memory(state: FunctionState, *sizes: int) -> Change:
    """The change that sets these memory sizes, MB, one after the other."""
    return Change((state.layers, state.layers), {}, (state.memory, *sizes))


def change_to(layers: tuple[Layers, Layers], now: Mapping[str, str], wanted: Mapping[str, str | None]) -> Change:
    """The change from the variables that are set `now` to the wanted ones."""
    return Change(layers, {name: (now.get(name), value) for name, value in wanted.items() if now.get(name) != value})


def variables_after(variables: Mapping[str, str], change: Change) -> dict[str, str]:
    """All variables after the change."""
    return known_members({**variables, **{name: after for name, (_, after) in change.variables.items()}})


def joined_record(earlier: Change, later: Change) -> Change:
    """One record for two changes, of which the later one is made by an upgrade: what was there before the first.

    Where it was changed between the two, the record keeps what the later one found. If our layer was gone in between,
    it is another attachment, perhaps of a new function with the same name: then only the later one counts.
    """
    if earlier.memory and earlier.memory[-1:] == later.memory[:1]:
        later = later._replace(memory=(earlier.memory[0], later.memory[-1]))
    if any(map(is_ours, earlier.layers[1])) and not any(map(is_ours, later.layers[0])):
        return later
    pairs = dict(earlier.variables)
    for name, (before, after) in later.variables.items():
        first, last = earlier.variables.get(name, (before, before))
        pairs[name] = (first if last == before else before, after)
    layers = (_before_both(earlier.layers, later.layers[0]), later.layers[1])
    return Change(layers, {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}, later.memory)


def _before_both(earlier: tuple[Layers, Layers], found: Layers) -> Layers:
    """Layers before the first change, where `found` are those before the second."""
    if found == earlier[1]:
        return earlier[0]
    ours = [arn for arn in found if is_ours(arn)]
    if not ours or ours[0] not in earlier[1]:
        return found
    return _with_ours_as_in(earlier[0], found)


def _with_ours_as_in(before: Layers, layers: Layers) -> Layers:
    """`layers` with our version of `before` in the place of the present one, or without any."""
    put = [arn for arn in before if is_ours(arn)]
    return tuple(put[0] if is_ours(arn) else arn for arn in layers) if put else _without_ours(layers)


def change_back(record: Change, layers: Layers, variables: Mapping[str, str]) -> tuple[Change, list[str]]:
    """The change that takes a function back to what it was before the recorded change, and what is left as it is.

    `layers` and `variables` are those of now. What was changed since then is left and named.
    """
    left = []
    kept: dict[str, str] = {}
    wanted: dict[str, str | None] = {}
    for name, (first, last) in record.variables.items():
        now = variables.get(name)
        if now == last:
            wanted[name] = first
        elif now != first:
            kept[name] = f"{name} was changed since it was attached: it stays {'unset' if now is None else now!r}"
    before, after = record.layers
    if layers in (before, after):
        back = before
    else:
        left.append("the layers were changed since it was attached: only truemem's is taken off")
        back = _with_ours_as_in(before, layers)
    if not any(map(is_ours, back)):
        wanted |= without_files({**variables, **wanted})
        set_since = [name for name in variables if name.startswith(PREFIX) and name not in record.variables]
        left += [f"{name} is not from truemem attach: it stays" for name in set_since if name not in wanted]
    left = [*(text for name, text in kept.items() if name not in wanted), *left]
    return change_to((layers, back), variables, wanted), left


def taken_off(layers: Layers, variables: Mapping[str, str]) -> Change:
    """Without a record: the change that removes everything that is truemem's from a function with our layer. Without
    the layer no more is taken off than names files of it: the function does not start with these."""
    if not any(map(is_ours, layers)):
        return change_to((layers, layers), variables, without_files(variables))
    ours: dict[str, str | None] = dict.fromkeys(name for name in variables if name.startswith(PREFIX))
    path = variables.get(PYTHON_PATH, "").split(":")
    if path[0] == HEAP_FOLDER:
        ours[PYTHON_PATH] = ":".join(path[1:]) if path[1:] != [DEFAULT_PYTHON_PATH] else None
    return change_to((layers, _without_ours(layers)), variables, {**ours, **without_files(variables)})


def without_files(variables: Mapping[str, str | None]) -> dict[str, str | None]:
    """The variables that name files of the layer, or the sidecar's port, without these. A function does not start with
    one that is gone."""
    options = variables.get(NODE_OPTIONS) or ""
    others = PRELOAD_OPTION.sub("", options)
    preloads = {NODE_OPTIONS: others.strip() or None} if others != options else {}
    configured = {COLLECTOR_CONFIG: None} if variables.get(COLLECTOR_CONFIG) == CLOUDWATCH else {}
    return {**unwrapped(variables), **preloads, **configured, **web_adapter.freed(variables)}


def unwrapped(variables: Mapping[str, str | None]) -> dict[str, str | None]:
    """The wrapper without ours, and the one that was chained to it."""
    if variables.get(WRAPPER) != EXACT_WRAPPER:
        return {}
    return {WRAPPER: variables.get(CHAINED_WRAPPER) or None, CHAINED_WRAPPER: None}


def is_preloaded(variables: Mapping[str, str]) -> bool:
    """True if these variables load the heap probe, into Python or Node.js."""
    path = variables.get(PYTHON_PATH, "").split(":")
    return HEAP_FOLDER in path or PRELOAD_OPTION.search(variables.get(NODE_OPTIONS, "")) is not None


def _without_ours(layers: Layers) -> Layers:
    return tuple(arn for arn in layers if not is_ours(arn))
