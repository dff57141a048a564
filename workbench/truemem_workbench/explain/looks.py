"""After which invocations a tracer looks at what is held. Runs in the function's own process, if the tracer does."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence


class Looks:
    """Plans the looks: each after its invocation, or earlier, when its share of the time is over."""

    def __init__(self, planned: Sequence[int], seconds: float) -> None:
        """`planned`: numbers of invocations, from 1. `seconds`: what the run may take."""
        self.planned = planned
        self.taken = 0
        self.count = 0
        """Invocations so far."""
        self._every_s = seconds / (len(self.planned) + 1)
        self._began_s = time.monotonic()

    @classmethod
    def of_process(cls) -> Looks:
        """As this process's variables have them."""
        planned = list(map(int, os.environ["TRUEMEM_EXPLAIN_LOOKS"].split(",")))
        return cls(planned, float(os.environ["TRUEMEM_EXPLAIN_SECONDS"]))

    def due(self) -> bool:
        """Count an invocation. True if there is a look after it."""
        self.count += 1
        if self.is_over:
            return False
        late = time.monotonic() - self._began_s >= self._every_s * (self.taken + 1)
        due = late or self.count >= self.planned[self.taken]
        self.taken += due
        return due

    @property
    def is_over(self) -> bool:
        return self.taken == len(self.planned)
