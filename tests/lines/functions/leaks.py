"""A handler that keeps 40 KiB of each event; `hog` takes 400 MiB."""

import truemem_heap  # type: ignore[import-not-found]  # noqa: F401 - the preload, as sitecustomize imports it

kept: list[bytearray] = []


def keep() -> None:
    kept.append(bytearray(40 * 1024))


def handler(event: dict[str, object], context: object) -> int:
    keep()
    if event["do"] == "hog":
        kept.append(bytearray(b"x") * (400 << 20))
    return len(kept)
