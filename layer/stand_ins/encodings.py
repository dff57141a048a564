"""In place of the standard package: the one codec that CPython looks up when it starts.

UTF-8, Latin-1 and ASCII are encoded and decoded in C without it; other encodings nobody here uses.
"""

from __future__ import annotations

import _codecs


class CodecInfo(tuple):  # type: ignore[type-arg]
    """What the C side asks for."""

    name = "utf-8"
    _is_text_encoding = True


_utf_8 = CodecInfo((_codecs.utf_8_encode, _codecs.utf_8_decode, None, None))


def search(name: str) -> CodecInfo | None:
    """For the registry: None stands for "not here"."""
    return _utf_8 if name in ("utf-8", "utf_8") else None


_codecs.register(search)  # type: ignore[arg-type]
