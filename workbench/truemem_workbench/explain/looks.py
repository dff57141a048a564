"""After which invocations a tracer looks at what is held. Runs in the function's own process."""

import os
import time


class Looks:
    """Plans the looks: each after its invocation, or earlier, when its share of the time is over."""

    def __init__(self) -> None:
        self.planned = list(map(int, os.environ["TRUEMEM_EXPLAIN_LOOKS"].split(",")))
        """Numbers of invocations, from 1."""
        self.taken = 0
        self.count = 0
        """Invocations so far."""
        self._every_s = float(os.environ["TRUEMEM_EXPLAIN_SECONDS"]) / (len(self.planned) + 1)
        self._began_s = time.monotonic()

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
