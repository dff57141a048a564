"""JSON without the `json` package, whose import (for `re`) costs 6.6 ms of cold start and 1.3 MiB.

The scanner and the encoder are the C ones that `json` itself uses; only its Python wrapping is left out.
"""

from __future__ import annotations

import _json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class _Context:
    """What `_json.make_scanner` asks its context for: the defaults of `json.JSONDecoder`."""

    strict = True
    object_hook = None
    object_pairs_hook = None
    parse_float = float
    parse_int = int
    parse_constant = float
    memo: dict[str, str] = {}  # noqa: RUF012 - never filled: the C scanner clears its own


_scan = _json.make_scanner(_Context())  # type: ignore[arg-type]
_encode = _json.make_encoder(
    None,
    None,  # type: ignore[arg-type]
    _json.encode_basestring_ascii,
    None,
    ":",
    ",",
    False,
    False,
    False,
)

quoted = _json.encode_basestring_ascii
"""A text as JSON has it, in its quotes."""


def loads(text: bytes) -> Any:
    """The value that a JSON document stands for. Raises ValueError whatever is wrong with it."""
    try:
        document = text.decode().strip(" \t\n\r")
        value, end = _scan(document, 0)
    # The C code wants to raise json.JSONDecodeError, which the one-file interpreter does not have
    # (ImportError), and StopIteration for an empty text; deep nesting is a RecursionError.
    except Exception as error:
        raise ValueError(f"not JSON: {type(error).__name__}: {error}") from None
    if end != len(document):
        raise ValueError("not JSON: more after its end")
    return value


def dumps(value: Any) -> str:
    """The value as one line of JSON, without spaces. Raises ValueError for NaN and infinity, TypeError for foreign
    types."""
    return "".join(_encode(value, 0))
