"""One extension and what it is attached to, invocation by invocation."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks.kit.contenders import Contender
from testing.bare import Extension, FunctionProcesses, telemetry

HARDLY_SAMPLING = {"TRUEMEM_CPU_BUDGET": "0.01"}


def named(number: int) -> str:
    """The request id of that invocation."""
    return f"00000000-0000-4000-8000-{number:012d}"


def invoke(extension: Extension, number: int) -> float:
    """One invocation, with its telemetry; µs from INVOKE to `next`."""
    sent_ns = extension.api.invoke(named(number))
    took_us = (extension.api.wait_for_next() - sent_ns) / 1000
    extension.api.tell(*telemetry(named(number)))
    return took_us


@contextmanager
def attached(contender: Contender, variables: dict[str, str] | None = None, **function: int) -> Iterator[Extension]:
    """An extension that waits for its first event, and function processes beside it."""
    with contender.start(variables) as extension:
        extension.api.wait_for_next()
        with FunctionProcesses(extension.api.address, **function):
            yield extension
