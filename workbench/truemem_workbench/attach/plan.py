"""What attaching changes in one function, or why it is left as it is. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import NamedTuple

from truemem.config import EMF, OTLP

from ..aws.layer_zips import ARCHITECTURES, LAYER_PREFIX, LayerZip, is_ours, layer_zip
from ..local.configuration.layer import PERMISSIONS, may_probe
from ..support import docs_link, web_adapter
from ..support.bad_input import BadInput
from ..support.platform_facts import MOST_LAYERS, MOST_UNZIPPED_MB, language, version
from .change import (
    CHAINED_WRAPPER,
    CLOUDWATCH,
    COLLECTOR_CONFIG,
    DEFAULT_PYTHON_PATH,
    EXACT_WRAPPER,
    HEAP_FOLDER,
    LINES,
    NODE_OPTIONS,
    PREFIX,
    PRELOAD,
    PRELOAD_OPTION,
    PYTHON_PATH,
    WRAPPER,
    Change,
    FunctionState,
    change_to,
    unwrapped,
    variables_after,
)
from .lambda_calls import LambdaCalls
from .platform_diagnosis import UPGRADE

PROBED_LANGUAGES = {"python": (3,), "nodejs": (18,)}
"""Languages that the heap probe is for, from these versions on: an older Node.js does not start with it."""
OLDEST_JAVA = (17,)
"""The oldest Java that the sidecar asks for classes."""

OUTPUT = f"{PREFIX}OUTPUT"

WITHOUT_LINES = f"its own tools name what grows: {docs_link.command('patterns#from-an-alarm-to-the-line')}"
"""What to do where no line is profiled."""


REFUSED = (
    "its NODE_OPTIONS turn Node.js's permission model on: attached without the heap probe. To have it, add"
    " --allow-fs-read=/opt/truemem/ --allow-fs-write=/tmp/ to them, and attach again"
)


class AttachRequest(NamedTuple):
    """What the user asks for, the same for each function."""

    settings: Mapping[str, str]
    """TRUEMEM_ variables."""
    exact: bool | None
    """True and False turn exact mode on and off. None leaves it as it is."""
    heap: bool
    lines: bool = False
    """The heap probe also profiles lines."""
    java: bool = False
    """The sidecar asks a JVM for its classes."""
    collector: str = ""
    """Layer version of a collector that sends metrics to CloudWatch; or none."""


NOTHING_ASKED = AttachRequest({}, exact=None, heap=False)


class AttachPlan(NamedTuple):
    """One function, its change, and what its user should know."""

    state: FunctionState
    change: Change
    notes: tuple[str, ...]
    mode: str = ""
    """`exact` or `default`: how it measures once attached, unless its own bootstrap starts our wrapper."""


class Left(NamedTuple):
    """A function that is left as it is."""

    name: str
    reason: str
    gone: bool = False
    """True if Lambda says that there is no such function."""


def plan(state: FunctionState, wanted: AttachRequest, layer: str, notes: Sequence[str] = ()) -> AttachPlan | Left:
    """Attach the layer version `layer`, of the function's architecture. `notes` are printed beside the plan's."""
    reason = _reason(state, wanted)
    if reason is not None:
        return Left(state.name, reason)
    after = _with_layer(state.layers, layer, is_ours)
    if wanted.collector:
        name = wanted.collector.rpartition(":")[0]
        after = _with_layer(after, wanted.collector, lambda arn: arn.rpartition(":")[0] == name)
    if len(after) > MOST_LAYERS:
        held = ", ".join(state.layers)
        return Left(state.name, f"it has {MOST_LAYERS} layers already, the most that Lambda permits: {held}")
    variables: dict[str, str | None] = dict(wanted.settings)
    if wanted.lines and not (_names_something(state.runtime, wanted) and _may_load(state)):
        del variables[LINES]
    if wanted.exact is not None:
        variables |= _in_exact_mode(state, wanted) if wanted.exact else _in_default_mode(state.variables)
    if wanted.heap and has_probe(state.runtime):
        is_node = language(state.runtime) == "nodejs"
        variables |= _with_preload(state) if is_node else _with_heap(state.variables)
    if wanted.collector:
        variables |= _to_collector({**state.variables, **wanted.settings})
    change = change_to((state.layers, after), state.variables, variables)
    if state.unreadable and (change.variables or wanted != NOTHING_ASKED):
        return Left(state.name, unreadable(state))
    if change.empty and state.failed:
        return Left(state.name, state.failed)
    then = variables_after(state.variables, change)
    is_exact = web_adapter.is_ours(then) or (starts_wrapper(state.runtime) and then.get(WRAPPER) == EXACT_WRAPPER)
    return AttachPlan(state, change, (*_notes(state, wanted), *notes), "exact" if is_exact else "default")


def unreadable(state: FunctionState) -> str:
    """Why variables that cannot be read must not be written."""
    text = "its variables cannot be read, so they must not be written"
    return f"{text} ({state.unreadable}). The caller needs kms:Decrypt for its key"


def _reason(state: FunctionState, wanted: AttachRequest) -> str | None:
    """Why this function cannot be attached to, whatever its layers are."""
    if state.image:
        return "a container image takes no layers. truemem layer-files DIR writes the files and the Dockerfile's lines"
    if state.architecture not in ARCHITECTURES:
        return f"there is no layer for {state.architecture} here. Try {UPGRADE}"
    if state.busy:
        return f"{state.busy}. Try again later"
    if wanted.collector and wanted.collector.split(":")[3] != state.region:
        return f"the collector's layer is in another region: {wanted.collector}"
    if state.zipped_bytes >> 20 > MOST_UNZIPPED_MB:  # Lambda names no unzipped size
        return (
            f"code and layers have {state.zipped_bytes >> 20} MB zipped; Lambda permits {MOST_UNZIPPED_MB} MB unzipped"
        )
    return None


def has_probe(runtime: str) -> bool:
    """True if there is a heap probe for this runtime of Lambda."""
    least = PROBED_LANGUAGES.get(language(runtime) or "")
    return least is not None and version(runtime) >= least


def _may_load(state: FunctionState) -> bool:
    """False if Node.js's permission model, turned on by the function's variables, keeps the probe out."""
    options = state.variables.get(NODE_OPTIONS, "")
    return language(state.runtime) != "nodejs" or may_probe(str(PurePosixPath(HEAP_FOLDER).parent), options)


def _names_something(runtime: str, wanted: AttachRequest) -> bool:
    """True if TRUEMEM_LINES has an effect there: in a customer-managed runtime, if the probe is loaded by hand."""
    return has_probe(runtime) or language(runtime) == "custom" or (wanted.java and _has_classes(runtime))


def _has_classes(runtime: str) -> bool:
    return language(runtime) == "java" and version(runtime) >= OLDEST_JAVA


def starts_wrapper(runtime: str) -> bool:
    """True if Lambda starts this runtime through AWS_LAMBDA_EXEC_WRAPPER: those that are AWS's own, and not of an OS
    alone. A customer-managed one may, if its publisher has seen to it."""
    return language(runtime) not in ("os-only", "custom")


def _with_layer(layers: tuple[str, ...], layer: str, is_same: Callable[[str], bool]) -> tuple[str, ...]:
    """Put the layer version into the place of the first that is the same layer, so that the order stays; or last."""
    place = next((at for at, arn in enumerate(layers) if is_same(arn)), len(layers))
    others = [arn for arn in layers if not is_same(arn)]
    return (*others[:place], layer, *others[place:])


def _to_collector(variables: Mapping[str, str]) -> dict[str, str | None]:
    outputs = variables.get(OUTPUT) or EMF
    sends = {} if OTLP in outputs.split(",") else {OUTPUT: f"{outputs},{OTLP}"}
    return {**sends, **({} if variables.get(COLLECTOR_CONFIG) else {COLLECTOR_CONFIG: CLOUDWATCH})}


def _in_exact_mode(state: FunctionState, wanted: AttachRequest) -> dict[str, str | None]:
    if not web_adapter.is_there(state.layers, state.variables):
        return _wrapped(state.variables) if starts_wrapper(state.runtime) else unwrapped(state.variables)
    if web_adapter.why_not(state.layers, state.variables):
        return _in_default_mode(state.variables)
    port = wanted.settings.get(web_adapter.PORT) or state.variables.get(web_adapter.PORT)
    return unwrapped(state.variables) | web_adapter.pointed(port)


def _in_default_mode(variables: Mapping[str, str]) -> dict[str, str | None]:
    return unwrapped(variables) | web_adapter.freed(variables)


def _wrapped(variables: Mapping[str, str]) -> dict[str, str | None]:
    present = variables.get(WRAPPER)
    if present == EXACT_WRAPPER:
        return {}
    return {WRAPPER: EXACT_WRAPPER, **({CHAINED_WRAPPER: present} if present else {})}


def _with_heap(variables: Mapping[str, str]) -> dict[str, str | None]:
    path = variables.get(PYTHON_PATH) or DEFAULT_PYTHON_PATH
    return {} if path.split(":")[0] == HEAP_FOLDER else {PYTHON_PATH: f"{HEAP_FOLDER}:{path}"}


def _with_preload(state: FunctionState) -> dict[str, str | None]:
    """With the probe, or without it where it may not be read: the function may not start with it."""
    options = state.variables.get(NODE_OPTIONS, "")
    if not _may_load(state):
        return {NODE_OPTIONS: PRELOAD_OPTION.sub("", options).strip() or None}
    return {} if PRELOAD_OPTION.search(options) else {NODE_OPTIONS: f"{options} {PRELOAD}".strip()}


def _notes(state: FunctionState, wanted: AttachRequest) -> list[str]:
    notes = [*state.notes]
    is_behind = web_adapter.is_there(state.layers, state.variables)
    if wanted.exact and is_behind and (why := web_adapter.why_not(state.layers, state.variables)):
        notes.append(f"attached in the default mode: {why}")
    if wanted.exact and not is_behind and not starts_wrapper(state.runtime):
        who = "may start" if language(state.runtime) == "custom" else "starts"
        text = f"{state.runtime} {who} no wrapper: attached in the default mode. For exact mode its bootstrap starts"
        notes.append(f"{text} {EXACT_WRAPPER} ({docs_link.command('attach#4-exact-mode')})")
    if wanted.heap and not has_probe(state.runtime) and not (wanted.java and _has_classes(state.runtime)):
        notes.append(_without_probe(state.runtime, wanted))
    if wanted.heap and not _may_load(state):
        notes.append(REFUSED)
    elif wanted.lines and PERMISSIONS.search(state.variables.get(NODE_OPTIONS, "")):
        notes.append("Node.js's permission model refuses the inspector: no lines are profiled")
    if wanted.collector:
        notes.append("its role needs cloudwatch:PutMetricData")
        if state.variables.get(COLLECTOR_CONFIG, CLOUDWATCH) != CLOUDWATCH:
            notes.append(f"its collector has a configuration of its own, which stays. Ours is {CLOUDWATCH}")
    if state.variables.get(f"{PREFIX}ENABLED", "").lower() == "false":
        notes.append("TRUEMEM_ENABLED=false is set: it will not measure")
    if state.managed:
        notes.append("Managed Instances run published versions: publish one to measure")
        many = f"up to {state.at_once}" if state.at_once else "several"
        notes.append(
            f"there {many} requests at once share its memory: truemem check app.py:handler --managed-instances"
            f" {state.at_once or 'N'} says what they need"
        )
        if wanted.lines:
            notes.append("on Managed Instances no lines are profiled: --lines has no effect")
    return notes


def _without_probe(runtime: str, wanted: AttachRequest) -> str:
    """Why a function is attached without --heap or --lines, and what names the cause there."""
    if language(runtime) == "custom":
        where = docs_link.command("heap")
        return f"the language of {runtime} is not known: the heap probe's variable is yours to set ({where})"
    text = f"{runtime} is not Python, nor Node.js 18 or newer: attached without the heap probe"
    if wanted.lines and _has_classes(runtime):
        return f"{text}. With --lines-java its classes are named: two full collections in an environment"
    return f"{text}; {WITHOUT_LINES}" if wanted.lines else text


NEW_VERSION = "NEW"
"""Version in the plan of a layer that is not published yet."""


class LayerChoice:
    """Layer versions by region and architecture. Each is asked for once."""

    def __init__(self, calls: LambdaCalls, given: Sequence[str]) -> None:
        """`given` are ARNs. Raises BadInput if one is not of our layer."""
        self._calls = calls
        self._given: dict[tuple[str, str], str] = {}
        for arn in given:
            if not is_ours(arn) or arn.endswith(f":{NEW_VERSION}"):
                raise BadInput(
                    f"--layer {arn}: not the ARN of a layer version of {LAYER_PREFIX}{' or '.join(ARCHITECTURES)}"
                )
            region, name = arn.split(":")[3], arn.split(":")[6]
            self._given[region, name.removeprefix(LAYER_PREFIX)] = arn
        self._found: dict[tuple[str, str], str | None] = {}
        self._zips: dict[str, LayerZip] = {}

    def arn(self, state: FunctionState) -> str:
        """The layer version for this function; its version is NEW_VERSION until it is published. Raises BadInput."""
        place = (state.region, state.architecture)
        if state.image or state.architecture not in ARCHITECTURES:
            return ""
        if self._given:
            if place not in self._given:
                raise BadInput(f"{state.name} needs a layer for {place[1]} in {place[0]}. Try one more --layer ARN")
            return self._given[place]
        if place not in self._found:
            self._zips.setdefault(place[1], layer_zip(place[1]))
            self._found[place] = self._calls.published(place[0], self._zips[place[1]])
        return self._found[place] or state.layer_arn(LAYER_PREFIX + place[1], NEW_VERSION)

    def announced(self, plans: Iterable[AttachPlan | Left]) -> list[str]:
        """Lines about the layers that `publish` would publish."""
        return [f"publish {LAYER_PREFIX}{architecture} in {region}" for region, architecture in self._missing(plans)]

    def publish(self, plans: Iterable[AttachPlan | Left]) -> None:
        """Publish what these plans need and the account does not have. Raises BadInput."""
        for region, architecture in self._missing(plans):
            self._found[region, architecture] = self._calls.publish(region, self._zips[architecture])

    def _missing(self, plans: Iterable[AttachPlan | Left]) -> list[tuple[str, str]]:
        needed = {
            (each.state.region, each.state.architecture)
            for each in plans
            if isinstance(each, AttachPlan) and any(arn.endswith(f":{NEW_VERSION}") for arn in each.change.layers[1])
        }
        return sorted(needed)
