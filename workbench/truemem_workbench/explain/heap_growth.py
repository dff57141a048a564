"""What grows from one heap snapshot of V8 to the next, by what keeps it. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .heap_snapshot import Snapshot, Whole

OWN = ("code", "object shape")
"""Kinds of V8's own: they come while functions get hot."""
CONTEXT = "system / Context"
"""The variables of a scope."""
THINGS = ("object", "closure", "native", "string", "concatenated string", "regexp", "bigint", "symbol")
"""Kinds that a program has made itself."""
MOST = 30
"""Keepers that are told of, and watched."""
Key = tuple[int, str]
"""The id of an object that was there at the first snapshot, and the variable, if it is a scope."""


@dataclass
class Keeper:
    """What keeps objects that came after the first snapshot."""

    sizes: list[int] = field(default_factory=list)
    """Bytes that it keeps, at each snapshot."""
    items: list[int] = field(default_factory=list)
    """Objects that it refers to itself."""
    kind: str = ""
    """Name of its constructor; `variable` for a variable of a scope."""
    of: str = ""
    """What most items are."""
    owner: str = ""
    """The way to it, as it is written in JavaScript: `cache.orders`."""
    made_at: list[tuple[str, int, int]] = field(default_factory=list)
    """Script, line and number of the functions and classes below it."""
    closure: int = 0
    """The id of a function that sees the variable; 0 if there is none."""


class HeapGrowth:
    """Takes the snapshots of one process, the oldest first."""

    def __init__(self) -> None:
        self.invocations: list[int] = []
        self._first = np.empty(0, np.int64)
        self._keepers: dict[Key, Keeper] = {}

    def add(self, invocation: int, snapshot: Snapshot) -> None:
        if not self.invocations:
            self._first = snapshot.ids
        self.invocations.append(invocation)
        for key, found in _Kept(snapshot, self._first).keepers().items():
            keeper = self._keepers.setdefault(key, Keeper())
            missed = len(self.invocations) - 1 - len(keeper.sizes)
            found.sizes = [*keeper.sizes, *[0] * missed, *found.sizes]
            found.items = [*keeper.items, *[0] * missed, *found.items]
            self._keepers[key] = found

    def growing(self) -> Mapping[Key, Keeper]:
        """The keepers with most bytes at the last snapshot."""
        now = {key: each for key, each in self._keepers.items() if len(each.sizes) == len(self.invocations)}
        most = sorted(now, key=lambda key: -now[key].sizes[-1])
        return {key: now[key] for key in most[:MOST]}

    def document(self, scripts: Mapping[str, str], grew_at: Mapping[Key, Sequence[Any]]) -> dict[str, Any]:
        """`scripts` are the user's files by the script's id, `grew_at` the stacks after which a keeper had more."""
        return {
            "invocations": self.invocations,
            "keepers": [
                {
                    "kind": each.kind,
                    "of": each.of,
                    "owner": each.owner,
                    "bytes": each.sizes,
                    "items": each.items,
                    "grewAt": list(grew_at.get(key, ())),
                    "madeAt": [[scripts[script], line, n] for script, line, n in each.made_at if script in scripts],
                }
                for key, each in self.growing().items()
            ],
        }


class _Kept:
    """The objects of a snapshot that were not there at the first one, by what keeps them."""

    def __init__(self, snapshot: Snapshot, first: Whole) -> None:
        """`first` are the ids of the first snapshot."""
        self._snapshot = snapshot
        order, self._above = snapshot.way()
        self._is_old = np.isin(snapshot.ids, first)
        self._new = order[~self._is_old[order] & (self._above[order] >= 0)]

    def keepers(self) -> dict[Key, Keeper]:
        snapshot, above = self._snapshot, self._above
        keeper_of: dict[int, tuple[int, str]] = {}
        item_of: dict[int, int] = {}
        """By node: the first thing on the way from its keeper."""
        found: dict[tuple[int, str], list[int]] = {}
        for node in self._new.tolist():
            over = int(above[node])
            keeper_of[node] = keeper_of.get(over) or self._keeper(over, node)
            item_of[node] = item_of.get(over, node if snapshot.kinds[node] in THINGS else -1)
            if item_of[node] < 0:
                del item_of[node]
            if snapshot.kinds[node] not in OWN:
                found.setdefault(keeper_of[node], []).append(node)
        return {
            (int(snapshot.ids[node]), variable): self._described(node, variable, nodes, item_of)
            for (node, variable), nodes in found.items()
        }

    def _keeper(self, node: int, child: int) -> tuple[int, str]:
        """The object that the user has made, or the variable: not its table, and not a link of its chain."""
        snapshot, above = self._snapshot, self._above
        while above[node] > 0:
            if snapshot.kinds[node] in THINGS and not self._is_link(node, child):
                break
            node, child = int(above[node]), node
        if snapshot.names[node] != CONTEXT:
            return node, ""
        return node, snapshot.edge(node, child)[1]

    def _is_link(self, node: int, child: int) -> bool:
        """Is it a link of a chain: of the child's kind, and reached by the same name?"""
        snapshot = self._snapshot
        if snapshot.names[node] != snapshot.names[child] or snapshot.kinds[node] != "object":
            return False
        return snapshot.edge(int(self._above[node]), node) == snapshot.edge(node, child)

    def _described(self, node: int, variable: str, nodes: Sequence[int], item_of: Mapping[int, int]) -> Keeper:
        snapshot = self._snapshot
        items = {item_of[each] for each in nodes if each in item_of}
        names = Counter(_named(snapshot, each) for each in items)
        made = Counter(snapshot.places[each] for each in nodes if each in snapshot.places)
        return Keeper(
            sizes=[int(snapshot.sizes[list(nodes)].sum())],
            items=[len(items)],
            kind="variable" if variable else _named(snapshot, node),
            of=names.most_common(1)[0][0] if names else "",
            owner=self._owner(node, variable),
            made_at=[(*place, number) for place, number in made.most_common()],
            closure=self._closure(node) if variable else 0,
        )

    def _closure(self, scope: int) -> int:
        """The id of the oldest function that was made in it, or in a scope within it."""
        snapshot, scopes, seen = self._snapshot, [scope], {scope}
        while scopes:
            makers = [(each, name) for scope in scopes for each, name in snapshot.referring(scope)]
            made = [
                int(snapshot.ids[each])
                for each, name in makers
                if name == "context" and snapshot.kinds[each] == "closure"
            ]
            if made:
                return min(made)
            scopes = [each for each, name in makers if name == "previous" and each not in seen]
            seen.update(scopes)
        return 0

    def _owner(self, node: int, variable: str) -> str:
        """The names on the way to it, from the variable that holds it."""
        snapshot, above = self._snapshot, self._above
        said = variable
        while not variable and above[node] > 0:
            kind, name = snapshot.edge(int(above[node]), node)
            if kind == "context":
                return f"{name}{said}"
            if kind == "property":
                said = f".{name}{said}"
            elif kind == "element" and snapshot.kinds[int(above[node])] in THINGS:
                said = f"[{name}]{said}"
            node = int(above[node])
        return said.removeprefix(".") if variable or "." in said else ""


def _named(snapshot: Snapshot, node: int) -> str:
    kind, name = snapshot.kinds[node], snapshot.names[node]
    if kind == "closure":
        return f"function {name}".strip()
    return name if kind == "object" else kind
