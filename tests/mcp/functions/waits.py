"""Says who it is in its first invocation, and then waits for ever."""

import os
import time
from pathlib import Path


def handler(event: dict[str, str], context: object) -> None:
    Path(event["pipe"]).write_text(str(os.getpid()))
    time.sleep(3600)
