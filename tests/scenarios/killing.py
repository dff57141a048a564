"""What the scenarios of a killed sidecar share."""

import os
import signal

from testing.environment import Environment


def kill(environment: Environment) -> None:
    """SIGKILL for its sidecar."""
    os.kill(environment.local.processes()[f"extension:{environment.name}"], signal.SIGKILL)
