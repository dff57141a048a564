"""The clocks of this machine, passed in as one object: a test passes another."""

from __future__ import annotations

import time


class Clock:
    """Monotonic, wall and CPU time, all in ns."""

    monotonic_ns = staticmethod(time.monotonic_ns)
    """For intervals. It goes on while the environment is frozen."""
    epoch_ns = staticmethod(time.time_ns)
    """As the platform's events tell it. It may be set back."""
    cpu_ns = staticmethod(time.process_time_ns)
