"""A function with hooks around the SnapStart snapshot; with HOOK=fails the second one raises."""

import os
from typing import Any

from snapshot_restore_py import (  # type: ignore[import-untyped]
    register_after_restore,
    register_before_snapshot,
)

hooks: list[str] = []


def before() -> None:
    hooks.append("before snapshot")


def after() -> None:
    if os.environ.get("HOOK") == "fails":
        raise RuntimeError("no luck after the restore")
    hooks.append("after restore")


register_before_snapshot(before)
register_after_restore(after)


def handler(event: dict[str, Any], _: Any) -> dict[str, Any]:
    return {"hooks": hooks, "environment": dict(os.environ) if "environment" in event else None}
