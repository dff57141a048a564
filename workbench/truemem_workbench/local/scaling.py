"""The environments of one function: which of them gets a request, when a new one starts, and when one ends.

Lambda documents that a request goes to a free environment, else to a new one, else is refused. Which of several free
ones it takes is not documented: here the one that was used last, so that those above the need become idle and end.
"""

from __future__ import annotations

import asyncio
import logging
import resource
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..support.bad_input import BadInput
from ..support.failed_answer import error_of
from ..support.untrusted_text import parsed
from .configuration.settings import Settings
from .errors import STOPPED_FAILURE, Failure, Throttled
from .lifecycle.environment import OnDemandEnvironment
from .lifecycle.invocation import PendingInvocation
from .lifecycle.journal import EnvironmentChange
from .sandbox import Sandbox

__all__ = ["Answer", "EnvironmentChange", "Fleet", "Scaling"]

_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Scaling:
    """How many environments there may be, and how long they live. Construction raises BadInput."""

    environments: int = 1
    """Most at once. A request that would need one more is refused with 429, as by the account's limit."""
    reserved_concurrency: int | None = None
    """Most requests at once, as by the function's own setting. 0 refuses all. None: no such setting."""
    idle_s: float | None = None
    """An environment that was idle for so long ends. None: never."""
    age_s: float | None = None
    """An environment of this age ends when it is idle. None: never."""
    keep: bool = True
    """False: logs, events and reports are not kept, and only the callbacks get them."""

    def __post_init__(self) -> None:
        if self.environments < 1:
            raise BadInput(f"{self.environments} environments: one or more serve a function. Try --environments 1")
        if self.reserved_concurrency is not None and self.reserved_concurrency < 0:
            raise BadInput(f"reserved concurrency of {self.reserved_concurrency}. Try --reserved-concurrency 1")
        for name, seconds in (("idle", self.idle_s), ("age", self.age_s)):
            if seconds is not None and not seconds > 0:
                raise BadInput(f"{name} time of {seconds:g} s: an environment ends after more than 0. Try 300")


@dataclass(frozen=True)
class Answer:
    """What one request came to."""

    request_id: str
    environment: str
    """Id of the environment; empty if the request was throttled."""
    begun_s: float
    """When the request was submitted, by the event loop's clock."""
    ended_s: float
    """When the request's answer came."""
    is_cold: bool
    """True if it waited for an init."""
    error: str
    """Empty, `throttled`, or error type and message of a function error."""
    payload: bytes


def answer_to(pending: PendingInvocation, begun_s: float, status: int = 200) -> Answer:
    """What a request came to that was submitted then and has ended now. `status`, of HTTP: from 400 on the function has
    failed, also if it says so itself."""
    error, payload = f"HTTP {status}" if status >= 400 else "", b""
    if not pending.answer.done():
        error = "throttled"
    elif pending.answer.exception() is None:
        response = pending.answer.result()
        payload = response.payload
        if response.function_error is not None:
            error = error_of(parsed(payload), response.function_error)
    ended_s = asyncio.get_running_loop().time()
    return Answer(pending.request_id, pending.environment, begun_s, ended_s, pending.is_cold, error, payload)


FILES_PER_ENVIRONMENT, OWN_FILES = 20, 200
"""Open files of this process for each environment, at most, and for all else."""


def permit_files(environments: int) -> None:
    """Permit this process the open files that so many environments need. Raises BadInput."""
    needed = OWN_FILES + FILES_PER_ENVIRONMENT * environments
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < needed:
        most = max(1, (hard - OWN_FILES) // FILES_PER_ENVIRONMENT)
        raise BadInput(
            f"{environments} environments need {needed} open files, and this process may have {hard}. "
            f"Try --environments {most}, or ulimit -Hn {needed}"
        )
    if soft != resource.RLIM_INFINITY and soft < needed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))


VISIT_S = 1.0
"""An invocation that is over by then is waited for."""


class End(NamedTuple):
    """How an environment is to end."""

    reason: str
    """Why the environment ends (EnvironmentChange.reason)."""
    shutdown_reason: str = "spindown"
    abort: bool = False


class Member:
    """An environment, and the requests that it has."""

    def __init__(self, sandbox: Sandbox, tenant_id: str | None) -> None:
        loop = asyncio.get_running_loop()
        self.sandbox = sandbox
        self.tenant_id = tenant_id
        self.requests = 0
        self.born_s = self.used_s = loop.time()
        self.ready: asyncio.Future[None] = loop.create_future()
        """Done when its APIs are served and its init begins; an exception if it could not start."""
        self.end: asyncio.Future[End] = loop.create_future()
        self.next_look: asyncio.TimerHandle | None = None
        self._waiting: list[PendingInvocation] = []

    def submit(self, pending: PendingInvocation) -> None:
        """Give it a request. It waits for the start and the init."""
        pending.environment = self.sandbox.id
        pending.is_cold = not self.ready.done() or not self.sandbox.environment.is_initialised
        if self.ready.done():
            self.sandbox.environment.submit(pending)
        else:
            self._waiting.append(pending)

    async def start(self) -> None:
        """Raises BadInput or OSError; then the requests that wait are refused."""
        try:
            await self.sandbox.start()
        except Exception as error:
            self.ready.set_exception(error)
            self.ready.exception()  # perhaps nothing waits for it
            for pending in self._waiting:
                pending.refuse(Failure("Sandbox.Failure", str(error), "failure"))
            raise
        self.ready.set_result(None)
        for pending in self._waiting:
            self.sandbox.environment.submit(pending)

    def stop(self, end: End) -> None:
        """End the environment in this way. Only the first call counts."""
        if self.next_look is not None:
            self.next_look.cancel()
        if not self.end.done():
            self.end.set_result(end)


class Fleet:
    """Routes requests to environments, and owns their lives. Without scaling: one environment, in which requests wait.

    Use it in the event loop: `start`, `submit`, `stop`.
    """

    def __init__(self, scaling: Scaling | None, settings: Settings, make: Callable[[], Sandbox]) -> None:
        self._scaling = scaling
        self._places = settings.managed_instances or 1
        self._is_provisioned = settings.initialization == "provisioned-concurrency"
        self._make = make
        self._members: list[Member] = []
        self._lives: dict[Member, asyncio.Task[None]] = {}
        self._queue: deque[PendingInvocation] = deque()
        self._running = 0
        self._stopping = False
        self._settled = asyncio.Event()
        self._settled.set()
        self._visited: asyncio.Event | None = None
        """Set when the visit that is under way has ended: a request that finds no other environment waits for it."""
        self.notices: list[str] = []
        """What this machine does not permit."""
        self.only: Sandbox | None = None
        """The environment, if there is no scaling, also after its end."""

    @property
    def sandboxes(self) -> list[Sandbox]:
        """The environments that have started and do not end. Safe to call from other threads."""
        return [member.sandbox for member in list(self._members) if member.ready.done()]

    def sandbox(self, environment_id: str) -> Sandbox:
        """Raises LookupError if it has ended."""
        return {sandbox.id: sandbox for sandbox in self.sandboxes}[environment_id]

    async def start(self) -> None:
        """Start the environments that are there before the first request. Raises BadInput or OSError."""
        if self._scaling is None:
            member = self._add(None)
            self.only = member.sandbox
            await asyncio.shield(member.ready)
            return
        permit_files(self._scaling.environments)
        if self._is_provisioned:
            for _ in range(self._scaling.environments):
                self._add(None)

    async def stop(self, reason: str, *, abort: bool) -> None:
        """End all environments, after their running requests, or at once with `abort`."""
        self._stopping = True
        while self._queue:
            self._queue.popleft().refuse(STOPPED_FAILURE)
        for member in self._lives:
            member.stop(End("stopped", reason, abort))
        if self._lives:
            await asyncio.wait(self._lives.values())

    # --- requests -----------------------------------------------------------------------------------------------------

    def submit(self, pending: PendingInvocation, *, may_wait: bool = False) -> None:
        """Give a request to an environment. Raises Throttled; with `may_wait` it waits in a queue instead."""
        if self._stopping:
            pending.refuse(STOPPED_FAILURE)
            return
        try:
            self._route(pending)
        except Throttled:
            if not may_wait:
                raise
            self._settled.clear()
            self._queue.append(pending)

    async def answer(self, pending: PendingInvocation) -> Answer:
        """Submit a request, and wait for its answer. Raises Failed if its environment was stopped before."""
        begun_s = asyncio.get_running_loop().time()
        if self._visited is not None and not self._has_free():
            await self._visited.wait()
        with suppress(Throttled):
            self.submit(pending)
            await pending.answer
        return answer_to(pending, begun_s)

    async def settle(self) -> None:
        """Wait until no request runs or waits, and no environment is in its first init."""
        await self._settled.wait()
        for member in list(self._members):
            await asyncio.wait([member.ready])
            if member.ready.exception() is None:
                await member.sandbox.environment.settle()

    async def visit(self, wants: Callable[[int], bool], work: Callable[[int], object]) -> None:
        """Call `work` with the pid of each runtime that it `wants`, one after the other, in another thread: between two
        invocations, while its processes run. An environment that is busy for longer than VISIT_S is left out."""
        for member in list(self._members):
            if not member.ready.done() or member.ready.exception():  # there is none before it has started
                continue
            environment = member.sandbox.environment
            pid = environment.roots().get("runtime") if environment.is_initialised else None
            if pid is None or not isinstance(environment, OnDemandEnvironment) or not wants(pid):
                continue
            member.requests += self._places  # no other comes to it
            self._visited = asyncio.Event()
            try:
                await asyncio.wait_for(environment.settle(), VISIT_S)
                await environment.thaw()
                await asyncio.to_thread(work, pid)
                if not member.end.done():
                    await environment.freeze()
            except TimeoutError:
                continue
            finally:
                member.requests -= self._places
                self._visited.set()
                self._visited = None

    def _has_free(self) -> bool:
        return any(member.requests < self._places for member in self._members)

    def _route(self, pending: PendingInvocation) -> None:
        """Give a request to an environment. Raises Throttled."""
        member = self._members[0] if self._scaling is None else self._find(self._scaling, pending.tenant_id)
        self._running += 1
        self._settled.clear()
        member.requests += 1
        pending.report.add_done_callback(lambda _: self._request_ended(member))
        member.submit(pending)

    def _find(self, scaling: Scaling, tenant_id: str | None) -> Member:
        """A free environment, else a new one. Raises Throttled."""
        if scaling.reserved_concurrency is not None and self._running >= scaling.reserved_concurrency:
            raise Throttled("ReservedFunctionConcurrentInvocationLimitExceeded")
        free = [member for member in self._members if member.requests < self._places and member.tenant_id == tenant_id]
        if free:
            return max(free, key=lambda member: member.used_s)
        if len(self._members) >= scaling.environments:
            self._make_room()
        return self._add(tenant_id)

    def _make_room(self) -> None:
        """End the environment of another tenant that was idle for longest. Raises Throttled if none is idle."""
        idle = [member for member in self._members if not member.requests]
        if not idle:
            raise Throttled("ConcurrentInvocationLimitExceeded")
        self._end(min(idle, key=lambda member: member.used_s), "tenant")

    def _request_ended(self, member: Member) -> None:
        member.requests -= 1
        member.used_s = asyncio.get_running_loop().time()
        self._running -= 1
        self._recycle(member)
        while self._queue and not self._stopping:
            try:
                self._route(self._queue[0])
            except Throttled:
                return
            self._queue.popleft()
        if not self._running:
            self._settled.set()

    # --- environments -------------------------------------------------------------------------------------------------

    def _add(self, tenant_id: str | None) -> Member:
        member = Member(self._make(), tenant_id)
        self._members.append(member)
        self._lives[member] = asyncio.create_task(self._live(member))
        return member

    async def _live(self, member: Member) -> None:
        """The life of an environment, from its start to its end."""
        sandbox = member.sandbox
        reason, is_started = "stopped", False
        try:
            await member.start()
            is_started = True
            self.notices += [notice for notice in sandbox.notices if notice not in self.notices]
            self._look(member)
            ends: list[asyncio.Future[Any]] = [member.end, sandbox.task]
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            self._remove(member)
            reason, shutdown_reason, abort = member.end.result() if member.end.done() else End("")
            await sandbox.stop(shutdown_reason, abort=abort)
        except Exception as error:
            reason = str(error)
            if is_started:  # else `ready` has it
                _log.exception("environment %s", sandbox.id)
        finally:
            self._remove(member)
            self._stopping |= self._scaling is None  # there is no other
            del self._lives[member]
            sandbox.journal.changed("ended", reason)

    def _remove(self, member: Member) -> None:
        if member in self._members:
            self._members.remove(member)

    def _end(self, member: Member, reason: str) -> None:
        self._remove(member)
        member.stop(End(reason))

    def _recycle(self, member: Member) -> bool:
        """End the environment if it is idle and old. Returns whether it is so."""
        if self._scaling is None or self._scaling.age_s is None or member.requests or member.end.done():
            return False
        is_old = asyncio.get_running_loop().time() >= member.born_s + self._scaling.age_s
        if is_old:
            self._end(member, "age")
            if self._is_provisioned:
                self._add(None)
        return is_old

    def _look(self, member: Member) -> None:
        """End the environment if it is old, or was idle for long enough; else look again when that may be."""
        scaling = self._scaling
        if scaling is None or member.end.done() or self._recycle(member):
            return
        loop = asyncio.get_running_loop()
        now = loop.time()
        due = []
        if scaling.age_s is not None and now < member.born_s + scaling.age_s:
            due.append(member.born_s + scaling.age_s)
        if scaling.idle_s is not None and not self._is_provisioned:
            idle_until = (now if member.requests else member.used_s) + scaling.idle_s
            if idle_until <= now:
                self._end(member, "idle")
                return
            due.append(idle_until)
        if due:
            member.next_look = loop.call_at(min(due), self._look, member)
