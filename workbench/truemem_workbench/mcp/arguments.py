"""Is a call as a tool's schema says? If not: which argument, what it was given, and what to give instead. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from ..support.near import closest

Schema = Mapping[str, Any]
KINDS: Mapping[str, tuple[type, ...]] = {
    "string": (str,), "integer": (int,), "number": (int, float), "boolean": (bool,), "array": (list,),
    "object": (dict,),
}  # fmt: skip
WORDS = {
    "string": "a text", "integer": "a whole number", "number": "a number", "boolean": "true or false",
    "array": "a list", "object": "an object", "null": "null",
}  # fmt: skip
MOST_SIZES = 8
"""Numbers of a text that are said again."""
EXAMPLES = {"integer": "200", "number": "400", "boolean": "true", "object": '{"NAME": "value"}'}


def problem_of(tool: str, arguments: Mapping[str, Any], schemas: Mapping[str, Schema], commands: Sequence[str]) -> str:
    """The first thing that is wrong with a call, with its repair; empty if nothing is. `schemas`: of each tool that
    there is. `commands`: what a person can type, of which some are no tools."""
    if tool not in schemas:
        named = f"truemem {tool} is typed by a person: this server has no such tool" if tool in commands else ""
        return f"{named or f'there is no tool {tool}'}. {_instead(tool, [*schemas], 'tools')}"
    schema = schemas[tool]
    known = schema.get("properties", {})
    for name in arguments:
        if name not in known:
            return f"{tool} has no argument {name}. {_instead(name, [*known], 'arguments')}"
    for name in schema.get("required", ()):
        if arguments.get(name, "") == "":
            return f"{tool} needs {name}: {known[name].get('description', '')}"
    for name, value in arguments.items():
        if problem := _unfitting(value, known[name]):
            return f"{tool}: {name} {problem}"
    return ""


def types_of(schema: Schema) -> list[Schema]:
    """What an argument may be: one schema for each type, without null."""
    return [each for each in schema.get("anyOf", [schema]) if each.get("type") != "null"]


def _instead(name: str, known: Sequence[str], what: str) -> str:
    near = closest(name, known, 1) or [each for each in known if name and (name in each or each in name)][:1]
    return f"Try {near[0]}" if near else f"Its {what}: {', '.join(known)}"


def _unfitting(value: Any, schema: Schema) -> str:
    if value is None and any(each.get("type") == "null" for each in schema.get("anyOf", ())):
        return ""
    allowed = types_of(schema)
    problems = [_problem(value, each) for each in allowed]
    if not all(problems):
        return ""
    if len(allowed) == 1:
        return problems[0]
    return f"must be {' or '.join(WORDS[each['type']] for each in allowed)}, and is {_told(value)}. {_give(allowed[0])}"


def _problem(value: Any, schema: Schema) -> str:
    kind, sent = schema["type"], value
    if isinstance(value, str) and kind != "string":  # some assistants write a list as text
        with suppress(ValueError):
            value = json.loads(value)
    whole = isinstance(value, float) and value.is_integer()
    fits = isinstance(value, KINDS[kind]) or (kind == "integer" and whole)
    if not fits or (isinstance(value, bool) and kind in ("integer", "number")):
        return f"must be {_wanted(schema)}, and is {_told(sent)}. {_give(schema, sent)}"
    items = value if kind == "array" else value.values() if kind == "object" else ()
    inner = schema.get("items") or schema.get("additionalProperties")
    for each in items:
        if isinstance(inner, Mapping) and "type" in inner and not isinstance(each, KINDS[inner["type"]]):
            return f"must be {_wanted(schema)}, and {_told(each)} is in it. {_give(schema)}"
    if len(items) < schema.get("minItems", 0):
        return f"must not be empty. {_give(schema)}"
    if kind in ("integer", "number") and value < schema.get("minimum", value):
        return f"must be {schema['minimum']} or more, and is {value}"
    return ""


def _wanted(schema: Schema) -> str:
    kind, inner = schema["type"], schema.get("items") or schema.get("additionalProperties")
    of = WORDS.get(inner.get("type", ""), "").removeprefix("a ") if isinstance(inner, Mapping) else ""
    if not of:
        return WORDS[kind]
    return f"an object: names, each with a {of}" if kind == "object" else f"{WORDS[kind]} of {of}s"


def _told(value: Any) -> str:
    kinds = ((bool, "boolean"), (str, "string"), (int, "integer"), (float, "number"), (list, "array"), (dict, "object"))
    kind = next((WORDS[name] for each, name in kinds if isinstance(value, each)), "null")
    text = json.dumps(value)
    return f"{kind} ({text[:80]}{'...' if len(text) > 80 else ''})" if isinstance(value, str | int | float) else kind


def _give(schema: Schema, value: Any = None) -> str:
    """An example; where it is plain what was meant, that."""
    kind, text = schema["type"], value if isinstance(value, str) else ""
    if kind == "array" and schema.get("items", {}).get("type") == "integer":
        return f"Give {[*map(int, re.findall(r'[0-9]{1,5}', text))][:MOST_SIZES] or [512]}"
    if kind == "array":
        return f"Give {json.dumps([text or 'TEXT'])}"
    if kind == "object" and isinstance(value, list) and value and all(isinstance(each, str) for each in value):
        pairs = [each.partition("=") for each in value]
        return f"Give {json.dumps({name: variable for name, _, variable in pairs})}"
    return f"Give {EXAMPLES[kind]}" if kind in EXAMPLES else 'Give "TEXT"'
