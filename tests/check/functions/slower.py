"""Takes 5 ms longer after every 20th invocation."""

from __future__ import annotations

import itertools
import time
from typing import Any

numbers = itertools.count()


def handler(event: Any, context: object) -> None:
    time.sleep(0.005 * (1 + next(numbers) // 20))
