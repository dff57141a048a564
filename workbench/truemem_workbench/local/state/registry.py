"""The registered extensions of one generation of processes, external and internal, and their states."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field

from .. import errors
from ..configuration.settings import MAX_EXTENSIONS
from .extension_state import WANTED, Action, State, step
from .pending_next import PendingNext

EVENTS = ("INVOKE", "SHUTDOWN")


@dataclass
class Extension:
    name: str
    external: bool
    """True if it is launched from the extensions folder; False if it registered from within the runtime."""
    id: str = field(default_factory=lambda: str(uuid.uuid4()))
    state: State = State.STARTED
    events: tuple[str, ...] = ()
    pending_next: PendingNext | None = None
    error_type: str | None = None

    def act(self, action: Action) -> None:
        """Change the state. Raises ApiError if the action is not allowed."""
        after = step(self.state, action)
        if after is None:
            wanted = WANTED.get(action, self.state)
            raise errors.extension_state(self.name, self.state.value, wanted.value)
        self.state = after

    def gates(self) -> bool:
        """True if an invocation ends only when this extension has called `next`."""
        return "INVOKE" in self.events


class Registry:
    def __init__(self, external_names: Iterable[str]) -> None:
        self._by_name = {name: Extension(name, external=True) for name in external_names}
        self.closed = False
        """True once the runtime has asked for its first invocation: registration is then over."""

    def register(self, name: str | None, events: list[str]) -> Extension:
        """Register an extension. Raises ApiError, with the checks in the order of AWS's code.

        An unknown name is not refused: it becomes an internal extension. So a launched file with a misspelt name never
        registers.
        """
        if not name:
            raise errors.empty_extension_name()
        for event in events:
            if event not in EVENTS:
                raise errors.invalid_event_type(event)
        known = self._by_name.get(name)
        if known is not None and known.external:
            known.act(Action.REGISTER)
            known.events = tuple(dict.fromkeys(events))
            return known
        if known is not None:
            raise errors.name_taken()
        return self._register_internal(name, events)

    def _register_internal(self, name: str, events: list[str]) -> Extension:
        if self.closed:
            raise errors.registration_closed()
        if len(self._by_name) >= MAX_EXTENSIONS:
            raise errors.too_many_extensions(MAX_EXTENSIONS)
        if "SHUTDOWN" in events:
            raise errors.internal_extension_shutdown()
        extension = Extension(name, external=False, events=tuple(dict.fromkeys(events)))
        extension.act(Action.REGISTER)
        self._by_name[name] = extension
        return extension

    def identify(self, identifier: str | None, unknown: str | None = None) -> Extension:
        """Find the extension of a Lambda-Extension-Identifier header. Raises ApiError."""
        if not identifier:
            raise errors.missing_identifier()
        try:
            asked = str(uuid.UUID(identifier))
        except ValueError:
            raise errors.invalid_identifier() from None
        for extension in self._by_name.values():
            # An identifier exists once it has been handed out: a launched file that never registered has none.
            if extension.id == asked and extension.state is not State.STARTED:
                return extension
        raise errors.unknown_identifier(unknown or f"Unknown extension {asked}")

    def __getitem__(self, name: str) -> Extension:
        return self._by_name[name]

    def all(self) -> list[Extension]:
        return list(self._by_name.values())

    def external(self) -> list[Extension]:
        return [extension for extension in self._by_name.values() if extension.external]

    def all_registered(self) -> bool:
        """True if every launched file has registered: then the runtime may start."""
        return all(extension.state not in (State.STARTED, State.LAUNCH_ERROR) for extension in self.external())

    def all_ready(self) -> bool:
        """True if every registered extension, also without events, has called `next`: then init is over."""
        return all(extension.state is State.READY for extension in self._by_name.values())

    def invocation_over(self) -> bool:
        """True if every extension that is registered for INVOKE has called `next` again."""
        return all(extension.state is State.READY for extension in self._by_name.values() if extension.gates())
