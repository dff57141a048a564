"""Explains a Node.js function: what grows from one heap snapshot of V8 to the next, what keeps it, and what to watch.

A snapshot's format is that of Chrome DevTools (https://developer.chrome.com/docs/devtools/memory-problems/heap-snapshots,
and V8's src/profiler/heap-snapshot-generator.cc): arrays of whole numbers, described by `snapshot.meta`.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..support.untrusted_text import loads
from .attribution import LEAST_GROWTH_KIB, LEAST_LOOKS, Frame, Holder, most_first, rising
from .explanation import REST
from .source_maps import Spot, original

NUMBERED_EDGES = ("element", "hidden")  # kinds of edges with a number instead of a name
WEAK_MAP = re.compile(r" pair in WeakMap \(table @(\d+)\)$")
"""The end of the name of an edge to a WeakMap's value: the id of its table."""
KEEP_NOTHING = ("(External strings)", "(Internalized strings)", "Node / CleanupQueue")
"""Names of V8's own tables of strings (src/objects/visitors.h, ROOT_ID_LIST), and of Node.js's list of what it has to
close at its end (src/cleanup_queue.h): what only these have is cleared, or is kept by its JavaScript object."""
Whole = npt.NDArray[np.int64]
Place = tuple[str, int, int]  # script, line and column, both from 1


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
    places: Mapping[int, Place]
    """Place of a function, or of an object's constructor, by node."""
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
                node: (str(script), line + 1, column + 1)
                for node, script, line, column in zip(
                    (spots["object_index"] // width).tolist(),
                    spots["script_id"].tolist(),
                    spots["line"].tolist(),
                    spots["column"].tolist(),
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
        """The nodes by distance from the root, and for each node the one before it on the shortest way (-1: none).

        Weak references keep nothing, and are left out. So does the table of a WeakMap: a value is kept by its key; and
        so do KEEP_NOTHING.
        """
        begins = np.repeat(np.arange(len(self.ids)), np.diff(self.first_edge))
        tables = [node for node, name in enumerate(self.names) if name in KEEP_NOTHING]
        strong = (self.edge_kinds != self.kinds_of_edges.index("weak")) & ~self._of_weak_maps(begins)
        strong &= ~np.isin(begins, tables)
        return breadth_first(len(self.ids), begins[strong], self.to[strong])

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
            found.append((kind, str(name) if kind in NUMBERED_EDGES else self.strings[name]))
        ranks = ("context", "property", "element")
        return min(found, key=lambda each: ranks.index(each[0]) if each[0] in ranks else len(ranks))


def breadth_first(count: int, begins: Whole, ends: Whole) -> tuple[Whole, Whole]:
    """The nodes of a graph by distance from node 0, and for each of its `count` nodes the one that it was reached from
    (-1: none). Of two nodes as near, that with the smaller number comes first. `begins` and `ends` are of its edges."""
    by_node = np.lexsort((ends, begins))
    first = np.searchsorted(begins, np.arange(count + 1), sorter=by_node).tolist()
    to, order, above = ends[by_node].tolist(), [0], [-1] * count
    for node in order:  # it grows meanwhile
        for end in to[first[node] : first[node + 1]]:
            if above[end] < 0 and end:
                above[end] = node
                order.append(end)
    return np.array(order), np.array(above)


def _table(values: Sequence[int], fields: Sequence[str]) -> dict[str, Whole]:
    whole = np.array(values, np.int64).reshape(-1, len(fields))
    return {name: whole[:, place] for place, name in enumerate(fields)}


V8_KINDS = ("code", "object shape")  # kinds of V8's own: they come while functions get hot
CONTEXT = "system / Context"  # the variables of a scope
THINGS = ("object", "closure", "native", "string", "concatenated string", "regexp", "bigint", "symbol")
"""Kinds that a program has made itself."""
V8_ROOT = "synthetic"
"""The kind of V8's own roots. What one holds, and no code, is a handle of Node.js, such as a socket."""
MOST_KEEPERS = 30  # keepers that are reported and watched
Key = tuple[int, str]
"""The id of an object that was there at the first snapshot, and the variable, if it is a scope. Of a root: what kind of
things it holds."""


@dataclass
class ObjectKeeper:
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
    made_at: list[tuple[Place, int]] = field(default_factory=list)
    """Place and number of the functions and classes below it."""
    closure: int = 0
    """The id of a function that sees the variable; 0 if there is none."""
    home: Place | None = None
    """A function in the script that has the variable that holds it."""


class HeapGrowth:
    """Takes the snapshots of one process, the oldest first."""

    def __init__(self) -> None:
        self.invocations: list[int] = []
        self._first = np.empty(0, np.int64)
        self._keepers: dict[Key, ObjectKeeper] = {}

    def add(self, invocation: int, snapshot: Snapshot) -> None:
        if not self.invocations:
            self._first = snapshot.ids
        self.invocations.append(invocation)
        for key, found in _Kept(snapshot, self._first).keepers().items():
            keeper = self._keepers.setdefault(key, ObjectKeeper())
            missed = len(self.invocations) - 1 - len(keeper.sizes)
            found.sizes = [*keeper.sizes, *[0] * missed, *found.sizes]
            found.items = [*keeper.items, *[0] * missed, *found.items]
            self._keepers[key] = found

    def growing(self) -> Mapping[Key, ObjectKeeper]:
        """The keepers with most bytes at the last snapshot."""
        now = {key: each for key, each in self._keepers.items() if len(each.sizes) == len(self.invocations)}
        most = sorted(now, key=lambda key: -now[key].sizes[-1])
        return {key: now[key] for key in most[:MOST_KEEPERS]}

    def document(self, scripts: Mapping[str, str], grew_at: Mapping[Key, Sequence[Any]]) -> dict[str, Any]:
        """`scripts` are the files below the task root by the script's id, `grew_at` the stacks after which a keeper had
        more. Places are [file, line, column, function]."""

        def spot(place: Place | None) -> tuple[Any, ...] | None:
            return (scripts[place[0]], *place[1:], "") if place is not None and place[0] in scripts else None

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
                    "madeAt": [(made, number) for place, number in each.made_at if (made := spot(place)) is not None],
                    "home": spot(each.home),
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

    def keepers(self) -> dict[Key, ObjectKeeper]:
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
            if snapshot.kinds[node] not in V8_KINDS:
                keeper, variable = keeper_of[node]
                if snapshot.kinds[keeper] == V8_ROOT and node in item_of:
                    variable = _named(snapshot, item_of[node])
                found.setdefault((keeper, variable), []).append(node)
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

    def _described(self, node: int, variable: str, nodes: Sequence[int], item_of: Mapping[int, int]) -> ObjectKeeper:
        snapshot = self._snapshot
        if snapshot.kinds[node] == V8_ROOT:
            variable = ""
        items = {item_of[each] for each in nodes if each in item_of}
        names = Counter(_named(snapshot, each) for each in items)
        made = Counter(snapshot.places[each] for each in nodes if each in snapshot.places)
        return ObjectKeeper(
            sizes=[int(snapshot.sizes[list(nodes)].sum())],
            items=[len(items)],
            kind="variable" if variable else _named(snapshot, node),
            of=max(names, key=lambda name: (names[name], name[:1].isupper()), default=""),
            owner=self._owner(node, variable),
            made_at=made.most_common(),
            closure=int(snapshot.ids[closure]) if variable and (closure := self._closure(node)) else 0,
            home=self._home(node),
        )

    def _home(self, node: int) -> Place | None:
        """Where a function is that sees what holds it: the scope's, or the class that has it as a member."""
        snapshot = self._snapshot
        while node > 0:
            if snapshot.names[node] == CONTEXT:
                return snapshot.places.get(self._closure(node))
            if snapshot.kinds[node] == "closure":
                return snapshot.places.get(node)
            node = int(self._above[node])
        return None

    def _closure(self, scope: int) -> int:
        """The oldest function that was made in it, or in a scope within it; 0 if there is none."""
        snapshot, scopes, seen = self._snapshot, [scope], {scope}
        while scopes:
            makers = [(each, name) for scope in scopes for each, name in snapshot.referring(scope)]
            made = [each for each, name in makers if name == "context" and snapshot.kinds[each] == "closure"]
            if made:
                return min(made, key=lambda each: int(snapshot.ids[each]))
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


class HeapReader:
    """What one run has found: the growth of each process of the function."""

    def __init__(self) -> None:
        self._growth: dict[str, HeapGrowth] = {}
        """Growth by process id."""

    def between(self, folder: Path) -> None:
        """Read new snapshots and remove them. Raises OSError, and ValueError or LookupError for one that is damaged."""
        for path in sorted(folder.glob("heap-*.json"), key=lambda path: path.stat().st_mtime_ns):
            _, process, invocation = path.stem.split("-")
            growth = self._growth.setdefault(process, HeapGrowth())
            growth.add(int(invocation), Snapshot.parse(loads(path.read_text(encoding="utf-8", errors="replace"))))
            path.unlink()
            looks = len(growth.invocations)
            if looks >= LEAST_LOOKS:  # early, because a process may end
                new = folder / f"watch-{process}-{looks}.new"
                new.write_text(json.dumps(_wanted(growth)), encoding="utf-8")
                new.rename(new.with_suffix(".json"))

    def read(self, folder: Path) -> list[dict[str, Any]]:
        """A document for each process. Raises OSError."""
        found = []
        for process, growth in self._growth.items():
            path = folder / f"watched-{process}.json"
            watched = loads(path.read_text(encoding="utf-8")) if path.exists() else {}
            grew_at = {(each["id"], each["variable"]): each["stacks"] for each in watched.get("grewAt", ())}
            document = growth.document(watched.get("scripts", {}), grew_at)
            for each in document["keepers"]:
                if each["kind"] == V8_ROOT and not each["grewAt"]:
                    each["grewAt"] = [[stack, n] for name, stack, n in watched.get("handles", ()) if name == each["of"]]
            found.append({**document, "missing": watched.get("missing", [])})
        return found


def _wanted(growth: HeapGrowth) -> list[dict[str, Any]]:
    return [
        {
            "id": number,
            "variable": variable if each.kind != V8_ROOT else "",
            "closure": each.closure,
            "home": each.home[0] if each.home else "",
            "handles": each.of if each.kind == V8_ROOT else "",
        }
        for (number, variable), each in growth.growing().items()
        if rising(growth.invocations, each.sizes) > LEAST_GROWTH_KIB * 1024
    ]


def holders(found: Mapping[str, Any], measured_kib: float) -> list[Holder]:
    """The lines that keep what grew, that with most of it first, in the source if the code has source maps.

    What keeps it, but by a line that was not seen, is reported if that is as much as is worth a sentence. Where a
    library holds it, the line is the library's, with the user's line that called it.
    """
    mapped = original(_spots(found["keepers"]))
    made = []
    for each in found["keepers"]:
        rate = rising(found["invocations"], each["bytes"])
        if rate <= 0:
            continue
        in_library = bool(each["home"]) and mapped[Spot(*each["home"])].is_librarys
        seen = [(_way([mapped[Spot(*spot)] for spot in stack], in_library), count) for stack, count in each["grewAt"]]
        line = _line(seen, [mapped[Spot(*spot)] for spot, _ in each["madeAt"]])
        stack = max(seen, key=lambda pair: (pair[0][-1:] == (line,), pair[1]), default=((), 0))[0]
        of = f" of {each['of']}" if each["of"] and each["kind"] != "variable" else ""
        kind = f"open {each['of']}" if each["kind"] == V8_ROOT and each["grewAt"] else f"{each['kind']}{of}"
        users = [spot for spot in stack if not spot.is_librarys]
        made.append(
            Holder(
                file=line.file if line else "",
                line=line.line if line else 0,
                column=line.column if line else 0,
                function=line.function if line and line.column else "",
                kib=rate / 1024,
                kind=kind,
                owner=_owner(each, mapped),
                items=rising(found["invocations"], each["items"]),
                stack=tuple(map(_frame, stack)),
                called=_frame(users[-1]) if line and line.is_librarys and users else None,
            )
        )
    return [each for each in most_first(made, measured_kib) if each.line or each.kib > REST * measured_kib > 0]


def _spots(keepers: Iterable[Mapping[str, Any]]) -> Iterator[Spot]:
    for each in keepers:
        yield from (Spot(*spot) for stack, _ in each["grewAt"] for spot in stack)
        yield from _asking(each)
        yield from (Spot(*spot) for spot, _ in each["madeAt"])
        if each["home"]:
            yield Spot(*each["home"])


def _asking(keeper: Mapping[str, Any]) -> Iterator[Spot]:
    """Places after the variable that holds it, as after a function's name: what does the source call it?"""
    name, _ = _split(keeper)
    if name:
        yield from (Spot(*stack[-1])._replace(function=name) for stack, _ in keeper["grewAt"] if stack)


def _split(keeper: Mapping[str, Any]) -> tuple[str, str]:
    """The variable, and the members that lead from it: `cache` and `.orders`."""
    found = re.match(r"[\w$]*", keeper["owner"])
    name = found[0] if found else ""
    return name, keeper["owner"][len(name) :]


def _owner(keeper: Mapping[str, Any], mapped: Mapping[Spot, Spot]) -> str:
    """The way to it, with the name that the variable has in the source."""
    name, way = _split(keeper)
    said = [mapped[spot].function for spot in _asking(keeper)]
    return next((each for each in said if each != name), name) + way


def _frame(spot: Spot) -> Frame:
    return (*spot[:3],) if spot.column else spot[:2]


def _way(stack: Sequence[Spot], in_library: bool) -> tuple[Spot, ...]:
    """The user's frames, and the innermost one of a library that holds it itself. What is bundled is in one file."""
    users = [each for each in stack if not each.is_librarys]
    return (*users, *stack[-1:]) if in_library and stack and stack[-1].is_librarys else tuple(users)


def _line(seen: Iterable[tuple[Sequence[Spot], int]], made: Sequence[Spot]) -> Spot | None:
    """The line after which it had more; else that of the user's functions and classes that it keeps most of."""
    counts: Counter[Spot] = Counter()
    for stack, count in seen:
        if stack:
            counts[stack[-1]] += count
    return max(counts, key=lambda spot: counts[spot]) if counts else next((x for x in made if not x.is_librarys), None)
