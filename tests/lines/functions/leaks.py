"""A handler that keeps 40 KiB of each event."""

import truemem_heap  # type: ignore[import-not-found]  # noqa: F401 - the preload, as sitecustomize imports it

kept: list[bytearray] = []


def keep() -> None:
    kept.append(bytearray(40 * 1024))


def handler(event: object, context: object) -> int:
    keep()
    return len(kept)
