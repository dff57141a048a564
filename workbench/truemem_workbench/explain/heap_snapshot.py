"""A heap snapshot of V8: its objects, who keeps them, and by which name. Pure.

The format is that of Chrome DevTools (https://developer.chrome.com/docs/devtools/memory-problems/heap-snapshots, and
V8's src/profiler/heap-snapshot-generator.cc): arrays of whole numbers, described by `snapshot.meta`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array
from scipy.sparse.csgraph import breadth_first_order

NUMBERED = ("element", "hidden")
"""Kinds of edges with a number instead of a name."""
WEAK_MAP = re.compile(r" pair in WeakMap \(table @(\d+)\)$")
"""The end of the name of an edge to a WeakMap's value: the id of its table."""
Whole = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Snapshot:
    """Nodes are numbered from 0, which is the root."""

    kinds: Sequence[str]
    """What each node is: `object`, `closure`, `array`."""
    names: Sequence[str]
    """The constructor's name of an object, `system / Context` of a scope."""
    ids: Whole
    """Equal in all snapshots of a process."""
    sizes: Whole
    """Bytes of a node itself."""
    places: Mapping[int, tuple[str, int]]
    """Script and line of a function, or of an object's constructor, by node."""
    first_edge: Whole
    """The edges of node n are those from first_edge[n] to first_edge[n + 1]."""
    to: Whole
    """The node that each edge leads to."""
    edge_kinds: Whole
    """The kind of each edge: its place in `kinds_of_edges`."""
    edge_names: Whole
    """Place of the name in `strings`, or an element's own place."""
    kinds_of_edges: Sequence[str]
    strings: Sequence[str]

    @classmethod
    def parse(cls, document: Mapping[str, Any]) -> Snapshot:
        """Make it from the JSON document. Raises LookupError or ValueError if it is none."""
        meta, strings = document["snapshot"]["meta"], document["strings"]
        nodes = _table(document["nodes"], meta["node_fields"])
        edges = _table(document["edges"], meta["edge_fields"])
        spots = _table(document["locations"], meta["location_fields"])
        width, kinds = len(meta["node_fields"]), meta["node_types"][0]
        return cls(
            kinds=[kinds[each] for each in nodes["type"]],
            names=[strings[each] for each in nodes["name"]],
            ids=nodes["id"],
            sizes=nodes["self_size"],
            places={
                node: (str(script), line + 1)
                for node, script, line in zip(
                    (spots["object_index"] // width).tolist(),
                    spots["script_id"].tolist(),
                    spots["line"].tolist(),
                    strict=True,
                )
            },
            first_edge=np.concatenate([[0], np.cumsum(nodes["edge_count"])]),
            to=edges["to_node"] // width,
            edge_kinds=edges["type"],
            edge_names=edges["name_or_index"],
            kinds_of_edges=meta["edge_types"][0],
            strings=strings,
        )

    def way(self) -> tuple[Whole, Whole]:
        """The nodes by distance from the root, and for each node the one before it on the shortest way (-9999: none).

        Weak references keep nothing, and are left out. So does the table of a WeakMap: a value is kept by its key.
        """
        begins = np.repeat(np.arange(len(self.ids)), np.diff(self.first_edge))
        strong = (self.edge_kinds != self.kinds_of_edges.index("weak")) & ~self._of_weak_maps(begins)
        matrix = csr_array(
            (np.ones(int(strong.sum()), np.int8), (begins[strong], self.to[strong])), shape=(len(self.ids),) * 2
        )
        order, above = breadth_first_order(matrix, 0, directed=True, return_predecessors=True)
        return order.astype(np.int64), above.astype(np.int64)

    def _of_weak_maps(self, begins: Whole) -> npt.NDArray[np.bool_]:
        """Which edges lead from a WeakMap's table to a value. V8 gives that of the key the same name."""
        tables = {
            place: int(found[1])
            for place, text in enumerate(self.strings)
            if (found := WEAK_MAP.search(text)) is not None
        }
        named = np.flatnonzero(
            np.isin(self.edge_names, list(tables)) & (self.edge_kinds == self.kinds_of_edges.index("internal"))
        )
        of = np.zeros(len(self.to), np.bool_)
        of[named] = [self.ids[begins[each]] == tables[int(self.edge_names[each])] for each in named]
        return of

    def referring(self, to: int) -> list[tuple[int, str]]:
        """The nodes that refer to one by a name of V8's own, with that name."""
        at = np.flatnonzero((self.to == to) & (self.edge_kinds == self.kinds_of_edges.index("internal")))
        nodes = np.searchsorted(self.first_edge, at, side="right") - 1
        return [
            (node, self.strings[name]) for node, name in zip(nodes.tolist(), self.edge_names[at].tolist(), strict=True)
        ]

    def edge(self, node: int, to: int) -> tuple[str, str]:
        """Kind and name of the reference from one node to another; named ones before others."""
        begin, end = self.first_edge[node], self.first_edge[node + 1]
        found = []
        for each in begin + np.flatnonzero(self.to[begin:end] == to):
            kind, name = self.kinds_of_edges[self.edge_kinds[each]], int(self.edge_names[each])
            found.append((kind, str(name) if kind in NUMBERED else self.strings[name]))
        ranks = ("context", "property", "element")
        return min(found, key=lambda each: ranks.index(each[0]) if each[0] in ranks else len(ranks))


def _table(values: Sequence[int], fields: Sequence[str]) -> dict[str, Whole]:
    whole = np.array(values, np.int64).reshape(-1, len(fields))
    return {name: whole[:, place] for place, name in enumerate(fields)}
