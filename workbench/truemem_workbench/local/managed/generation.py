"""One generation of processes on Managed Instances: one runtime with several workers, several requests at once.

It follows AWS's code (RIE internal/lambda-managed-instances: core/registrations.go, invoke/invoke_router.go).
"""

from __future__ import annotations

import asyncio

from aiohttp import web

from .. import errors
from ..errors import ApiError, Failure
from ..state.generation import Generation
from ..state.invocation import Pending
from ..state.pending_next import PendingNext
from ..state.registry import Extension, Registry
from ..state.runtime_state import RuntimeAction, RuntimeState


class ManagedRegistry(Registry):
    """Registrations on Managed Instances: no extension may register for INVOKE, and only external ones for SHUTDOWN."""

    def register(self, name: str | None, events: list[str]) -> Extension:
        if events and name not in {extension.name for extension in self.external()}:
            raise errors.no_internal_events()
        if "INVOKE" in events:
            raise errors.invalid_event_type("INVOKE")
        return super().register(name, events)


class Request:
    """An invocation that a worker of the runtime has taken."""

    def __init__(self, pending: Pending) -> None:
        self.pending = pending
        self.claimed = False
        """True once a worker has begun to post a response or an error."""
        self._over: asyncio.Future[Failure | None] = asyncio.get_running_loop().create_future()

    def end(self, failure: Failure | None = None) -> None:
        """End the request. Only the first call counts."""
        if not self._over.done():
            self._over.set_result(failure)

    async def over(self) -> Failure | None:
        """Wait for the end of the request. Returns its failure, or None."""
        return await asyncio.shield(self._over)


class Worker:
    """One worker that waits in `next` for a request."""

    def __init__(self, request: web.Request) -> None:
        self._request = request
        self.pending_next = PendingNext(request)

    def gone(self) -> bool:
        """True if the worker's connection is closed: its process has died."""
        transport = self._request.transport
        return transport is None or transport.is_closing()

    async def send(self, pending: Pending) -> None:
        try:
            await self.pending_next.load(web.Response(body=pending.payload, headers=pending.runtime_headers()))
            await self.pending_next.fire()
        except ConnectionError:  # it died just now: the request will time out, as in AWS's code
            self.pending_next.give_up()


class ManagedGeneration(Generation):
    def __init__(self, extension_names: list[str]) -> None:
        super().__init__(extension_names)
        self.registry = ManagedRegistry(extension_names)
        self.requests: dict[str, Request] = {}
        """Running requests by request id."""
        self._timed_out: set[str] = set()
        self._idle: list[Worker] = []

    def worker_ready(self, worker: Worker) -> None:
        """Add a worker that waits in `next`. The first one makes the runtime ready."""
        if self.runtime.state is RuntimeState.STARTED:
            self.runtime.act(RuntimeAction.NEXT)
        self._idle.append(worker)
        self.notify()

    def has_idle_worker(self) -> bool:
        for worker in [each for each in self._idle if each.gone()]:
            self._idle.remove(worker)
            worker.pending_next.give_up()
        return bool(self._idle)

    def take_worker(self) -> Worker:
        """Take the worker that has waited longest."""
        return self._idle.pop(0)

    def claim(self, request_id: str, attempt_id: str | None) -> Request:
        """Find the request that a response or an error is for. Each can be claimed once. Raises ApiError."""
        request = self.requests.get(request_id)
        if request is None:
            raise self._refusal(request_id)
        if attempt_id and attempt_id != request.pending.attempt_id:
            raise errors.invoke_timeout()
        if request.claimed:
            raise errors.invalid_request_id()
        request.claimed = True
        return request

    def time_out(self, request_id: str) -> None:
        """Remember that the request has timed out. Its worker continues, and its late response is refused."""
        self._timed_out.add(request_id)

    def _refusal(self, request_id: str) -> ApiError:
        if request_id not in self._timed_out:
            return errors.invalid_request_id()
        self._timed_out.discard(request_id)  # told once
        return errors.invoke_timeout()

    def give_up(self) -> None:
        for worker in self._idle:
            worker.pending_next.give_up()
        super().give_up()
