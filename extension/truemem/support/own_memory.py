"""What the layer's executable can do about its own memory (layer/image.c). From source there is nothing to do."""

from __future__ import annotations

try:
    from _image import unmap as unmap  # type: ignore[import-not-found]  # noqa: PLC0414 - exported
except ImportError:

    def unmap() -> None:
        """Unmap code and constants: what is needed again comes from the page cache."""
