"""The demo's calls of the sample function: a short working day, the same each time."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

MODELS = 40

SPIKE_ROWS = 4000
"""Rows of the one large batch: about 96 KiB each in the handler, while it runs."""

BATCH_ROWS = (1100, 2000)
"""Smallest and largest size of the other batches."""

BATCHES = 0.3
"""Share of the calls after the spike that have a batch."""

ARRIVALS_MAX = 16
"""Number of models that arrive: the size of the incident's cache."""


@dataclass(frozen=True)
class Call:
    """One invocation's event."""

    model: int
    batch: int = 1
    """Rows that are scored at once."""

    def payload(self) -> dict[str, int]:
        """The event. It leaves out a single row, which is the function's default."""
        return {"model": self.model} if self.batch == 1 else {"model": self.model, "batch": self.batch}


def working_day(invocations: int) -> list[Call]:
    """Make the calls: customers arrive, each with another model; one sends a large batch; then the day goes on.

    The later calls use the same models, a few of them often: mostly single rows, now and then a batch.
    """
    chance = random.Random(1)
    arrivals = min(ARRIVALS_MAX, invocations // 4)
    models = chance.sample(range(MODELS), max(1, arrivals))
    popularity = [1 / rank for rank in range(1, len(models) + 1)]

    calls = [Call(model) for model in models[:arrivals]]
    calls.append(Call(models[0], SPIKE_ROWS))
    while len(calls) < invocations:
        (model,) = chance.choices(models, popularity)
        calls.append(Call(model, chance.randint(*BATCH_ROWS) if chance.random() < BATCHES else 1))
    return calls


def describe(calls: Sequence[Call]) -> str:
    """Describe these calls in one sentence."""
    spike = next(number for number, call in enumerate(calls, 1) if call.batch == SPIKE_ROWS)
    arrivals, rest = calls[: spike - 1], calls[spike:]
    parts = [f"{_count(len(arrivals), 'call')} for {_count(len(arrivals), 'new model')}"] if arrivals else []
    parts.append(f"one batch of {SPIKE_ROWS:,} rows (invocation {spike})")
    if rest:
        models = len({call.model for call in rest})
        sentence = f"{_count(len(rest), 'call')} for {_count(models, 'model')}"
        sentence += ", some popular" if models > 1 else ""
        if batches := [call.batch for call in rest if call.batch > 1]:
            sentence += f", {len(batches)} of them with a batch (up to {max(batches):,} rows)"
        parts.append(sentence)
    return "; then ".join(parts)


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"
