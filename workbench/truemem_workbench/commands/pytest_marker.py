"""The arguments of `@pytest.mark.memory`. A wrong value is one line that says so."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..answer import baseline as baselines
from ..answer.baseline import AllowedGrowth, Baseline
from ..answer.limits import Limits
from ..judge.finding import GROWS
from ..runs.passes import INVOCATIONS, WARM_UP, Plan
from ..support.bad_input import BadInput
from ..support.platform_facts import LEAST_MIB, MOST_MIB, MOST_TIMEOUT_S
from ..support.typed_command import NEXT
from ..target.events import read_events

if TYPE_CHECKING:
    from ..target.target import Target


class MemoryMarker:
    """The marker's arguments. Construction raises BadInput, and TypeError for an unknown name."""

    def __init__(
        self,
        handler: str,
        *,
        invocations: int = INVOCATIONS,
        most: int | None = None,
        event: object = None,
        events: str | Path | Sequence[object] | None = None,
        warm_up: int | None = None,
        max_drift_kib: float | None = None,
        max_drift_per_minute_kib: float | None = None,
        max_peak_mib: float | None = None,
        max_current_mib: float | None = None,
        max_p99_ms: float | None = None,
        max_tmp_mib: float | None = None,
        max_descriptors_drift: float | None = None,
        max_growth: str | float | None = None,
        baseline: str | Path | None = None,
        memory_mib: int | None = None,
        timeout_s: float | None = None,
        env: Mapping[str, str] | None = None,
        exact: bool = True,
        probe: bool = True,
        extensions: str | Path | None = None,
        allow: Sequence[str] = (),
        max_errors_percent: float | None = None,
        allow_errors: bool = False,
        explain: bool | None = None,
    ) -> None:
        if not isinstance(handler, str):
            raise _wrong("handler", handler, "text", "'app.py:handler'")
        if event is not None and events is not None:
            raise BadInput("event with events: leave one out")
        if max_growth is not None and baseline is None:
            raise BadInput(f"max_growth={max_growth!r}: over what? Try baseline='memory.json'")
        if max_errors_percent is not None and allow_errors:
            raise BadInput(f"allow_errors with max_errors_percent={max_errors_percent!r}: leave one out")
        self.handler = handler
        self.warm_up = None if warm_up is None else _whole("warm_up", warm_up, 0, WARM_UP)
        self.plan = Plan(
            invocations=_whole("invocations", invocations, 1, INVOCATIONS),
            most=None if most is None else _whole("most", most, 1, 2 * INVOCATIONS),
            warm_up=WARM_UP if self.warm_up is None else self.warm_up,
        )
        self._given: dict[str, Any] = {"exact": _flag("exact", exact), "probe": _flag("probe", probe)}
        self.explain = None if explain is None else _flag("explain", explain)
        self.limits = Limits(
            drift_kib=_amount("max_drift_kib", max_drift_kib, 4),
            drift_per_minute_kib=_amount("max_drift_per_minute_kib", max_drift_per_minute_kib, 400),
            peak_mib=_amount("max_peak_mib", max_peak_mib, 256),
            current_mib=_amount("max_current_mib", max_current_mib, 128),
            p99_ms=_amount("max_p99_ms", max_p99_ms, 500),
            tmp_mib=_amount("max_tmp_mib", max_tmp_mib, 64),
            descriptors_drift=_amount("max_descriptors_drift", max_descriptors_drift, 0),
            growth=_growth(max_growth),
            errors_percent=100.0
            if _flag("allow_errors", allow_errors)
            else _amount("max_errors_percent", max_errors_percent, 1),
            allowed=_causes(allow),
        )
        self._extensions = _path("extensions", extensions, "extensions", kind="folder")
        self._baseline = _path("baseline", baseline, "memory.json")
        self._events = [_json("event", {} if event is None else event)] if events is None else _events(events)
        self._environment = _variables(env)
        if memory_mib is not None:
            self._given["memory_mib"] = _whole("memory_mib", memory_mib, LEAST_MIB, 512, most=MOST_MIB)
        if timeout_s is not None:
            seconds = _amount("timeout_s", timeout_s, 30)
            if not seconds or seconds > MOST_TIMEOUT_S:
                raise _wrong("timeout_s", timeout_s, f"seconds, up to {MOST_TIMEOUT_S}", "30")
            self._given["timeout_s"] = seconds

    def events(self, root: Path) -> list[object]:
        """The events of the run. A path is relative to `root`. Raises BadInput."""
        return read_events(root / self._events) if isinstance(self._events, Path) else self._events

    def baseline(self, root: Path) -> Baseline | None:
        """The baseline to compare with, or None. Raises BadInput."""
        return None if self._baseline is None else baselines.read_baseline(root / self._baseline, self.handler)

    def target(self, folders: Sequence[Path]) -> Target:
        """The function. Paths are relative to the first of these folders that has them. Raises BadInput."""
        from ..local.configuration.layer import extensions_in
        from ..target.resolve import resolve

        def found(path: Path | str) -> Path:
            return next((folder / path for folder in folders if (folder / path).exists()), Path(path))

        path, separator, name = self.handler.rpartition(":")
        resolved = resolve(f"{found(path or name)}:{name}" if separator else str(found(path or name)))
        return replace(
            resolved,
            spec=self.handler,
            environment={**resolved.environment, **self._environment},
            extensions=extensions_in(self._extensions and found(self._extensions)),
            **self._given,
        )


_NAMES = {
    "--invocations": "invocations=",
    "--most": "most=",
    "--max-drift": "max_drift_kib=",
    "--max-p99": "max_p99_ms=",
    "--max-tmp": "max_tmp_mib=",
    "--max-descriptors-drift": "max_descriptors_drift=",
    "--allow-errors": "allow_errors=True",
    "--allow": "allow=",
    "--no-exact": "exact=False",
    "--no-probe": "probe=False",
    "--extensions": "extensions=",
    "--explain": "explain=True",
    "--no-explain": "explain=False",
    "--memory": "memory_mib=",
    "--timeout": "timeout_s=",
    "--events": "events=",
    "--event": "event=",
    "--env": "env=",
}
_OPTION = re.compile(rf"({'|'.join(_NAMES)})(?![\w-])(?: (?=KiB\b|MiB\b|MS\b|SECONDS\b|[A-Z]+=|PATH\b|['\"{{\d]))?")


def in_words_of_the_marker(text: str) -> str:
    """Replace the command's options in a message by the marker's arguments. A command to type stays as it is."""
    parts = (NEXT.split(line, maxsplit=1) for line in text.split("\n"))
    told = ((_OPTION.sub(lambda found: _NAMES[found[1]], said), "".join(command)) for said, *command in parts)
    return "\n".join(" ".join(filter(None, each)) for each in told)


def _causes(given: Sequence[str]) -> Sequence[str]:
    if isinstance(given, str) or not all(each in GROWS for each in given):
        raise _wrong("allow", given, f"a list of {', '.join(GROWS)}", ["descriptors"])
    return tuple(given)


def _wrong(name: str, value: object, wanted: str, example: object) -> BadInput:
    return BadInput(f"{name}={value!r} is not {wanted}. Try {name}={example}")


def _whole(name: str, value: object, least: int, example: int, *, most: int | None = None) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < least or (most and value > most):
        to = f"{least} to {most}" if most else f"{least} or more"
        raise _wrong(name, value, f"a whole number, {to}", example)
    return value


def _amount(name: str, value: object, example: int) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        raise _wrong(name, value, "a number, 0 or more", example)
    return float(value)


def _flag(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise _wrong(name, value, "True or False", True)
    return value


def _growth(value: object) -> AllowedGrowth | None:
    if value is None:
        return None
    try:
        if isinstance(value, str):
            return AllowedGrowth.parse(value)
        return AllowedGrowth(_amount("max_growth", value, 8) or 0.0, percent=False)
    except (BadInput, ValueError):
        raise _wrong("max_growth", value, "MiB or a share", "8 or '10%'") from None


def _path(name: str, value: object, example: str, kind: str = "file") -> Path | None:
    if value is not None and not isinstance(value, str | Path):
        raise _wrong(name, value, f"the path of a {kind}", repr(example))
    return None if value is None else Path(value)


def _events(given: object) -> list[object] | Path:
    example = "'tests/events.jsonl', or [{'key': 1}, {'key': 2}]"
    if isinstance(given, str | Path):
        return Path(given)
    if not isinstance(given, list | tuple) or not given:
        raise _wrong("events", given, "the path of a file or a list of events", example)
    return [_json("events", each) for each in given]


def _json(name: str, event: object) -> object:
    """Return the event. Raises BadInput if it cannot be sent."""
    try:
        json.dumps(event, allow_nan=False, sort_keys=True)
    except (TypeError, ValueError) as error:
        raise BadInput(f"{name}: {event!r} is not JSON ({error}). Try {name}={{'key': 1}}") from None
    return event


def _variables(given: object) -> Mapping[str, str]:
    if given is None:
        return {}
    if not isinstance(given, Mapping) or not all(isinstance(part, str) for pair in given.items() for part in pair):
        raise _wrong("env", given, "names and values, all of them text", "{'NAME': 'VALUE'}")
    return given
