"""Handlers in a file's text, by language. Pure."""

from __future__ import annotations

import ast
import re

USUAL = ("handler", "lambda_handler", "lambdaHandler")
"""Names that nothing else has."""
EVENT, CONTEXT = {"event", "evt", "e", "events", "payload", "request", "input"}, {"context", "ctx", "lambda_context"}

_NODE = re.compile(
    r"^\s*(?:module\.)?exports\.(?P<assigned>[\w$]+)\s*=(?!=)(?P<value>[^\n]*)"
    r"|^\s*export\s+(?:const|let|var)\s+(?P<const>[\w$]+)\b[^=\n]*=(?P<body>[^\n]*)"
    r"|^\s*export\s+(?:async\s+)?function\s+(?P<function>[\w$]+)\s*\((?P<parameters>[^\n]*)"
    r"|^\s*(?:module\.exports\s*=|export)\s*\{(?P<list>[^}]*)\}",
    re.MULTILINE,
)
_TAKES_EVENT = re.compile(r"\(?\s*_?(?:event|evt)\b")
_COMMENT = re.compile(r"/\*.*?\*/|^\s*//[^\n]*", re.DOTALL | re.MULTILINE)
_GO = re.compile(r"^\s*lambda\.Start\w*\(|AWS_LAMBDA_RUNTIME_API", re.MULTILINE)
_JAVA = re.compile(r"\bclass\s+\w+[^{]*\bimplements\b[^{]*\bRequest(?:Stream)?Handler\b")


def in_python(text: str) -> list[str]:
    """Names of handlers in a module: those of USUAL; else of functions that take an event and a context."""
    if "def " not in text and "handler" not in text:
        return []
    try:
        body = ast.parse(text).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    usual, others = [], []
    for each in body:
        if isinstance(each, ast.FunctionDef):
            words = [one.arg.strip("_") for one in (*each.args.posonlyargs, *each.args.args)]
            if each.name in USUAL and len(words) == 2:
                usual.append(each.name)
            elif len(words) == 2 and words[0] in EVENT and words[1] in CONTEXT:
                others.append(each.name)
        elif isinstance(each, ast.Assign) and isinstance(each.value, ast.Call):  # handler = Mangum(app)
            usual += [one.id for one in each.targets if isinstance(one, ast.Name) and one.id in USUAL]
    return usual or others


def in_node(text: str) -> list[str]:
    """Names of exported handlers in a file of JavaScript or TypeScript, as for Python."""
    usual, others = [], []
    for found in _NODE.finditer(_COMMENT.sub("", text)):
        if found["list"] is not None:
            names = [each.partition(" as ")[2] or each.partition(":")[0] for each in found["list"].split(",")]
            usual += [name.strip() for name in names if name.strip() in USUAL]
            continue
        name = found["assigned"] or found["const"] or found["function"]
        value = found["value"] or found["body"] or found["parameters"] or ""
        if name in USUAL:
            usual.append(name)
        elif _TAKES_EVENT.match(value.replace("async", "", 1).replace("function", "", 1).strip()):
            others.append(name)
    return [*dict.fromkeys(usual or others)]


def in_go(text: str) -> bool:
    """True of the main package of a function in Go."""
    return "package main" in text and _GO.search(text) is not None


def in_java(text: str) -> bool:
    """True of a class that handles requests."""
    return _JAVA.search(_COMMENT.sub("", text)) is not None
