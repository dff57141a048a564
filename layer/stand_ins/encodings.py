"""Replaces the standard package: it has the one codec that CPython looks up at its start.

C encodes and decodes UTF-8, Latin-1 and ASCII without it. The sidecar uses no other encoding.
"""

from __future__ import annotations

import _codecs


class CodecInfo(tuple):  # type: ignore[type-arg]
    """What the C side asks for."""

    name = "utf-8"
    _is_text_encoding = True


_utf_8 = CodecInfo((_codecs.utf_8_encode, _codecs.utf_8_decode, None, None))


def search(name: str) -> CodecInfo | None:
    """Find a codec for the registry. None means that there is none."""
    return _utf_8 if name in ("utf-8", "utf_8") else None


_codecs.register(search)  # type: ignore[arg-type]
