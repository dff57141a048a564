"""Says who it is in its first invocation, and then waits for ever."""

import os
import time
from pathlib import Path


def handler(event: object, context: object) -> None:
    Path(os.environ["PIPE"]).write_text(str(os.getpid()))
    time.sleep(3600)
