"""The clocks of this machine, passed in as one object: a test passes another."""

from __future__ import annotations

import time


class Clock:
    """Monotonic, wall and CPU time, all in ns."""

    monotonic_ns = staticmethod(time.monotonic_ns)
    """Monotonic ns, for intervals. It goes on while the environment is frozen."""
    epoch_ns = staticmethod(time.time_ns)
    """Epoch ns, as the platform's events tell the time. It may be set back."""
    cpu_ns = staticmethod(time.process_time_ns)
