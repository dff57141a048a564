"""What attaching changes in one function, or why it is left as it is. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ..aws.layer_zips import ARCHITECTURES, is_ours
from .change import (
    CHAINED,
    DEFAULT_PYTHON_PATH,
    EXACT,
    HEAP_FOLDER,
    NODE_OPTIONS,
    PREFIX,
    PRELOAD,
    PRELOADED,
    PYTHON_PATH,
    WRAPPER,
    Change,
    changed,
    unwrapped,
)
from .function_state import FunctionState

LAYERS = 5
"""Layers that a function may have (Lambda quotas)."""
UNZIPPED_BYTES = 262_144_000
"""Code and layers of a function, unzipped (Lambda quotas: 250 MB). Lambda tells only their zipped size."""
OS_ONLY = re.compile(r"provided|go1")
PYTHON = re.compile(r"python3\.\d+")
NODE = re.compile(r"nodejs(1[89]|[2-9]\d)\.x")
"""Those that the preload is for: an older one does not start with it."""


class Wanted(NamedTuple):
    """What the user asks for, the same for each function."""

    settings: Mapping[str, str]
    """TRUEMEM_ variables."""
    exact: bool | None
    """True and False turn exact mode on and off. None leaves it as it is."""
    heap: bool


NOTHING = Wanted({}, exact=None, heap=False)


class Plan(NamedTuple):
    """One function, its change, and what its user should know."""

    state: FunctionState
    change: Change
    notes: tuple[str, ...]


class Left(NamedTuple):
    """A function that is left as it is."""

    name: str
    reason: str
    gone: bool = False
    """True if Lambda says that there is no such function."""


def plan(state: FunctionState, wanted: Wanted, layer: str, notes: Sequence[str] = ()) -> Plan | Left:
    """Attach the layer version `layer`, which is of the function's architecture. `notes` are told beside the plan's."""
    reason = _reason(state, wanted)
    if reason is not None:
        return Left(state.name, reason)
    after = _layers(state.layers, layer)
    if len(after) > LAYERS:
        held = ", ".join(state.layers)
        return Left(state.name, f"it has {LAYERS} layers already, the most that Lambda permits: {held}")
    variables: dict[str, str | None] = dict(wanted.settings)
    if wanted.exact is not None:
        variables |= _wrapped(state.variables) if wanted.exact else unwrapped(state.variables)
    if wanted.heap:
        variables |= _with_preload(state.variables) if NODE.fullmatch(state.runtime) else _with_heap(state.variables)
    change = changed((state.layers, after), state.variables, variables)
    if state.unreadable and (change.variables or wanted != NOTHING):
        return Left(state.name, unreadable(state))
    if change.empty and state.failed:
        return Left(state.name, state.failed)
    return Plan(state, change, (*_notes(state), *notes))


def unreadable(state: FunctionState) -> str:
    """Why variables that cannot be read must not be written."""
    text = "its variables cannot be read, so they must not be written"
    return f"{text} ({state.unreadable}). The caller needs kms:Decrypt for its key"


def _reason(state: FunctionState, wanted: Wanted) -> str | None:
    """Why this function cannot be attached to, whatever its layers are."""
    if state.image:
        return "a container image takes no layers. truemem layer-files DIR writes the files and the Dockerfile's lines"
    if state.architecture not in ARCHITECTURES:
        return f"there is no layer for {state.architecture}"
    if state.busy:
        return f"{state.busy}. Try again later"
    if wanted.exact and OS_ONLY.match(state.runtime):
        why = f"{state.runtime} takes no wrapper, so --exact has no effect"
        return f"{why}. Leave --exact out, or put {EXACT} into its bootstrap (docs/attach.md)"
    if wanted.heap and not PYTHON.fullmatch(state.runtime) and not NODE.fullmatch(state.runtime):
        return f"{state.runtime} is not Python, nor Node.js 18 or newer, and --heap is for these. Leave --heap out"
    if state.zipped_bytes > UNZIPPED_BYTES:
        return f"code and layers have {state.zipped_bytes >> 20} MB zipped; Lambda permits 250 MB unzipped"
    return None


def _layers(layers: tuple[str, ...], ours: str) -> tuple[str, ...]:
    """Replace ours in its place, so that the order stays; or put it last."""
    if not any(map(is_ours, layers)):
        return (*layers, ours)
    place = next(at for at, arn in enumerate(layers) if is_ours(arn))
    return tuple(ours if at == place else arn for at, arn in enumerate(layers) if at == place or not is_ours(arn))


def _wrapped(variables: Mapping[str, str]) -> dict[str, str | None]:
    present = variables.get(WRAPPER)
    if present == EXACT:
        return {}
    return {WRAPPER: EXACT, **({CHAINED: present} if present else {})}


def _with_heap(variables: Mapping[str, str]) -> dict[str, str | None]:
    path = variables.get(PYTHON_PATH) or DEFAULT_PYTHON_PATH
    return {} if path.split(":")[0] == HEAP_FOLDER else {PYTHON_PATH: f"{HEAP_FOLDER}:{path}"}


def _with_preload(variables: Mapping[str, str]) -> dict[str, str | None]:
    options = variables.get(NODE_OPTIONS, "")
    return {} if PRELOADED.search(options) else {NODE_OPTIONS: f"{options} {PRELOAD}".strip()}


def _notes(state: FunctionState) -> list[str]:
    notes = []
    if state.log_format == "JSON" and state.log_level in ("WARN", "ERROR", "FATAL"):
        text = f"its log level is {state.log_level}: the sidecar's first line is dropped, its records are not"
        notes.append(text)
    if state.variables.get(f"{PREFIX}ENABLED", "").lower() == "false":
        notes.append("TRUEMEM_ENABLED=false is set: it will not measure")
    if state.managed:
        notes.append("Managed Instances run published versions: publish one to measure")
    return notes
