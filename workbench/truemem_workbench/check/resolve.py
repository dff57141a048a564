"""Finds the function that the user wants to check."""

from __future__ import annotations

from pathlib import Path

from ..local import Function
from ..local.configuration.node_function import SUFFIXES, from_node_handler
from ..support.bad_input import BadInput
from .target import Choose, Target, Tell, as_it_is, line_of, name_from, silent

TEMPLATES = (".yaml", ".yml", ".json")


def resolve(spec: str, choose: Choose = as_it_is, tell: Tell = silent) -> Target:
    """Resolve `app.py:handler`, `index.mjs:handler`, `template.yaml:LogicalId`, or the path of a bootstrap executable.

    For Node.js, `tell` gets a sentence where a runtime client must be installed first. Raises BadInput.
    """
    path, _, name = spec.rpartition(":")
    if Path(path).suffix in TEMPLATES:
        from .template import from_template  # PyYAML: for this kind alone

        return from_template(Path(path), name, choose, tell)
    if Path(spec).suffix in TEMPLATES:
        raise BadInput(f"{spec} names no function. Try {spec}:LOGICAL_ID")
    is_node = Path(path).suffix in SUFFIXES
    function, notices = choose(from_node_handler(spec, None, tell) if is_node else Function.from_spec(spec))
    source = Path(path) if function.runtime else None
    line = line_of(source, name) if source else None
    return Target(
        spec=spec,
        name=name_from(function.task_root.name),
        function=function,
        source=source,
        line=line,
        notices=notices,
    )
