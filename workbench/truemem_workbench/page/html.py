"""Makes the page: one file with everything in it. It loads nothing, and its own policy forbids any request."""

from __future__ import annotations

import base64
import gzip
import hashlib
import math
import re
import sys
from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..support import docs_link
from ..support.untrusted_text import script_json
from .environments import EnvironmentPage, most

ASSETS = Path(__file__).with_name("assets")
SCRIPT_NAMES = "uplot data format series plot layers hands chart story detail overview main"
SCRIPTS = [f"{name}.js" for name in SCRIPT_NAMES.split()]
"""Scripts in their order, joined in one <script>."""

ROOM = 500_000
"""Most invocations on a page. Each takes some 60 bytes, and a browser draws them without stalling."""

TYPES = {"time": "d", "number": "I", "flags": "H", "outcome": "H"}
"""Types of columns that are not `f` (32 bits, 0.002 MiB at 32,768 MiB), as array's letters, little-endian."""
ARRAYS = {"d": "Float64Array", "f": "Float32Array", "I": "Uint32Array", "H": "Uint16Array"}
MOST_PAGE_OUTCOMES = 65536
"""Most outcomes that the type of `outcome` can tell apart."""
UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
NO_UUID = bytes(16)


def page(environments: Sequence[EnvironmentPage], left_out: int = 0, note: str = "") -> str:
    """The content of the file. `left_out` is the number of environments that are not among these, `note` is below the
    title."""
    shown = most(environments, ROOM, len)
    style = "".join((ASSETS / name).read_text(encoding="utf-8") for name in ("uplot.css", "style.css"))
    licence = (ASSETS / "uplot-LICENSE.txt").read_text(encoding="utf-8")
    scripts = "\n".join((ASSETS / name).read_text(encoding="utf-8") for name in SCRIPTS)
    script = f"'use strict';\n/*\n{licence}*/\n{scripts}"
    parts = {
        "policy": f"default-src 'none'; img-src data:; style-src '{_hash(style)}'; script-src '{_hash(script)}'",
        "style": style,
        "about": script_json(_about(shown, left_out + len(environments) - len(shown), note)),
        "columns": base64.b64encode(gzip.compress(_columns(shown), 6, mtime=0)).decode(),
        "script": script,
    }
    # in one pass: what a log says may look like a place for something
    return re.sub(r"\{\{(\w+)\}\}", lambda place: parts[place[1]], (ASSETS / "page.html").read_text(encoding="utf-8"))


def _about(environments: Sequence[EnvironmentPage], left_out: int, note: str) -> dict[str, Any]:
    """All data but the columns. `layout` says how to cut the columns out of their bytes, in their order."""
    return {
        "environments": [_environment(environment) for environment in environments],
        "words": _words(environments),
        "layout": [[name, ARRAYS[TYPES.get(name, "f")]] for name in _names(environments)],
        "count": sum(len(environment) for environment in environments),
        "leftOut": left_out,
        "note": note,
        "ids": _odd_ids(environments),
    }


def _environment(environment: EnvironmentPage) -> dict[str, Any]:
    finding = environment.finding
    return {
        "id": environment.id,
        "function": environment.function,
        "version": environment.version,
        "limit": _finite(environment.limit),
        "holders": {name: size for name, size in environment.holders.items() if _finite(size) is not None},
        "count": len(environment),
        "finding": {
            "cause": finding.cause,
            "grows": finding.grows,
            "sentence": finding.paragraph(),
            "topic": docs_link.command(f"patterns#{finding.pattern}") if finding.pattern else "",
            "address": docs_link.site("docs/patterns.md", finding.pattern) if finding.pattern else "",
            "perInvocationKiB": _finite(finding.per_invocation_kib),
        },
    }


def _finite(value: float | None) -> float | None:
    """The value, or None if JSON cannot have it."""
    return value if value is not None and math.isfinite(value) else None


def _words(environments: Sequence[EnvironmentPage]) -> list[str]:
    """All outcomes in words, each once; 0 is success."""
    return list(dict.fromkeys(word for environment in environments for word in environment.words))[:MOST_PAGE_OUTCOMES]


def _names(environments: Sequence[EnvironmentPage]) -> list[str]:
    """The columns that have any known value."""
    if not environments:
        return []
    return [
        name
        for name in environments[0].columns
        if any(not math.isnan(value) for environment in environments for value in environment.columns[name])
    ]


def _columns(environments: Sequence[EnvironmentPage]) -> bytes:
    """All request ids, 16 bytes each, then one column after the other over all environments."""
    places = {word: place for place, word in enumerate(_words(environments))}
    made = bytearray()
    for environment in environments:
        for request_id in environment.request_ids:
            made += packed(request_id) or NO_UUID
    for name in _names(environments):
        typecode = TYPES.get(name, "f")
        column: array[float] = array(typecode)
        for environment in environments:
            values = environment.columns[name]
            if name == "outcome":
                column.extend(array(typecode, (places.get(environment.words[int(value)], 0) for value in values)))
            elif typecode in "df":
                column.extend(array(typecode, values.tolist()))
            else:
                column.extend(array(typecode, map(int, values)))
        if sys.byteorder == "big":
            column.byteswap()
        made += column.tobytes()
    return bytes(made)


def _odd_ids(environments: Sequence[EnvironmentPage]) -> dict[int, str]:
    """Request ids that are not UUIDs, by row."""
    ids = (request_id for environment in environments for request_id in environment.request_ids)
    return {row: request_id for row, request_id in enumerate(ids) if request_id and not UUID.fullmatch(request_id)}


def packed(request_id: str) -> bytes | None:
    """The id as 16 bytes. None if it is not a UUID as Lambda writes them."""
    return bytes.fromhex(request_id.replace("-", "")) if UUID.fullmatch(request_id) else None


def _hash(text: str) -> str:
    """Hash of an inline element, as a content security policy names it."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
