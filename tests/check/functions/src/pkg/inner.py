"""A handler below its code folder."""

import os
from typing import Any


def handler(event: Any, context: object) -> dict[str, str]:
    return dict(os.environ)
