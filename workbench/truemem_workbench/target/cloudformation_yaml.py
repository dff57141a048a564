"""Loads YAML with CloudFormation's short forms, within limits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from ..support.bad_input import BadInput
from ..support.untrusted_text import read_text

MOST_DEPTH, MOST_NODES = 60, 100_000
"""Limits of a template. An alias counts in full, and 64 characters of a text are one more value."""


class TemplateLoader(yaml.SafeLoader):
    """Loads YAML with CloudFormation's short forms as long ones: `!Ref X` is {"Ref": "X"}.

    An alias counts for all that it stands for, because merges and messages expand it.
    """

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self._depth = self._count = 0
        self._sizes: dict[int, int] = {}

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        begun = self._count
        self._depth += 1
        if self._depth > MOST_DEPTH:
            raise yaml.YAMLError(f"it is nested deeper than {MOST_DEPTH}")
        is_alias = self.check_event(yaml.AliasEvent)
        node: yaml.Node | None = super().compose_node(parent, index)
        self._depth -= 1
        if is_alias and id(node) not in self._sizes:
            raise yaml.YAMLError("an alias stands for what it is in")
        self._count += self._sizes[id(node)] if is_alias else 1
        if isinstance(node, yaml.ScalarNode) and not is_alias:
            self._count += len(node.value) // 64
        if self._count > MOST_NODES:
            raise yaml.YAMLError(f"it has more than {MOST_NODES:,} values, with what its aliases stand for")
        if not is_alias:
            self._sizes[id(node)] = self._count - begun
        return node


def _short_form(loader: TemplateLoader, suffix: str, node: yaml.Node) -> dict[str, Any]:
    value: Any
    if isinstance(node, yaml.ScalarNode):
        value = loader.construct_scalar(node)
    elif isinstance(node, yaml.SequenceNode):
        value = loader.construct_sequence(node, deep=True)
    else:
        assert isinstance(node, yaml.MappingNode)
        value = loader.construct_mapping(node, deep=True)
    return {suffix if suffix in ("Ref", "Condition") else f"Fn::{suffix}": value}


def _integer(loader: TemplateLoader, node: yaml.ScalarNode) -> int:
    """Construct an integer that can be printed. Raises ValueError for one with too many digits."""
    value: int = loader.construct_yaml_int(node)
    str(value)
    return value


TemplateLoader.add_multi_constructor("!", _short_form)
TemplateLoader.add_constructor("tag:yaml.org,2002:int", _integer)


_UNREADABLE = (yaml.YAMLError, ValueError, LookupError, AttributeError, TypeError, ArithmeticError, RecursionError)
"""Errors that PyYAML raises: for `!!int ""`, `!!timestamp x`, the 99th of a month, endless digits."""


def load_template(path: Path) -> object:
    """Load a template. Raises BadInput."""
    try:
        return yaml.load(read_text(path), TemplateLoader)
    except OSError as error:
        raise BadInput(f"cannot read {path}: {error.strerror}. Try PATH/template.yaml:LOGICAL_ID") from None
    except _UNREADABLE as error:
        first = str(error).partition("\n")[0]
        raise BadInput(f"{path} is not YAML ({first}). Try sam validate --template {path}") from None
