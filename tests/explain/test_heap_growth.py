"""Heap snapshots as small as can be: who keeps what came after the first one."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from truemem_workbench.explain.heap_growth import HeapGrowth
from truemem_workbench.explain.heap_snapshot import Snapshot
from truemem_workbench.explain.node import holders

META: dict[str, Any] = {
    "node_fields": ["type", "name", "id", "self_size", "edge_count"],
    "node_types": [["synthetic", "object", "closure", "array", "code"]],
    "edge_fields": ["type", "name_or_index", "to_node"],
    "edge_types": [["context", "element", "property", "internal", "weak"]],
    "location_fields": ["object_index", "script_id", "line", "column"],
}
Edge = tuple[str, Any, str]
"""Kind, name, and the node it leads to."""


def snapshot(nodes: dict[str, tuple[str, str, int, list[Edge]]], places: dict[str, tuple[int, int]]) -> Snapshot:
    """Nodes are kind, name, bytes and edges, by a name of ours that gives the id; the root is the first."""
    strings: list[str] = []
    order = list(nodes)
    rows: list[int] = []
    edges: list[int] = []

    def text(value: str) -> int:
        strings.append(value)
        return len(strings) - 1

    for each, (kind, name, size, below) in nodes.items():
        number = int.from_bytes(each.encode(), "big")
        rows += [META["node_types"][0].index(kind), text(name), number, size, len(below)]
        for edge, label, to in below:
            at = label if edge == "element" else text(label)
            edges += [META["edge_types"][0].index(edge), at, 5 * order.index(to)]
    spots = [part for each, (script, line) in places.items() for part in (5 * order.index(each), script, line, 0)]
    return Snapshot.parse(
        {"snapshot": {"meta": META}, "nodes": rows, "edges": edges, "strings": strings, "locations": spots}
    )


def heap(kept: int, *, weak: bool = False) -> Snapshot:
    """A module's list `orders` with as many functions of 1,024 bytes, which are of script 7, line 3."""
    items = [f"f{number}" for number in range(kept)]
    reference = "weak" if weak else "element"
    return snapshot(
        {
            "root": ("synthetic", "", 0, [("element", 1, "scope")]),
            "scope": ("object", "system / Context", 40, [("context", "orders", "list")]),
            "list": ("object", "Array", 16, [("internal", "elements", "table")]),
            "table": ("array", "", 8, [(reference, n if not weak else str(n), each) for n, each in enumerate(items)]),
            **{each: ("closure", "", 1024, []) for each in items},
        },
        dict.fromkeys(items, (7, 2)),
    )


def grown(kept: list[int], **options: Any) -> list[dict[str, Any]]:
    growth = HeapGrowth()
    for number, each in enumerate(kept):
        growth.add(10 * number, heap(each, **options))
    found = growth.document({"7": "/task/app.mjs"}, {})
    keepers: list[dict[str, Any]] = found["keepers"]
    return keepers


def test_a_list_keeps_what_came_after_the_first_snapshot() -> None:
    (keeper,) = grown([10, 20, 30, 40, 50])
    assert keeper["bytes"] == [1024 * each for each in (0, 10, 20, 30, 40)]
    assert (keeper["kind"], keeper["of"], keeper["owner"]) == ("Array", "function", "orders")
    assert keeper["madeAt"] == [["/task/app.mjs", 3, 40]]


def test_without_a_watched_line_it_is_that_of_the_functions_that_are_kept() -> None:
    keepers = grown([10, 20, 30, 40, 50])
    (holder,) = holders({"invocations": [0, 10, 20, 30, 40], "keepers": keepers}, 1.0)
    assert (holder.file, holder.line, holder.kib, holder.items) == ("/task/app.mjs", 3, 1.0, 1.0)


def test_what_is_only_referred_to_weakly_is_kept_by_none() -> None:
    assert grown([10, 20, 30], weak=True) == []


@given(st.lists(st.integers(0, 30), min_size=1, max_size=5))
def test_bytes_are_those_of_new_objects(kept: list[int]) -> None:
    for keeper in grown(kept):
        assert keeper["bytes"] == [1024 * max(0, each - kept[0]) for each in kept]


@pytest.mark.parametrize("document", [{}, {"snapshot": {"meta": META}, "nodes": [1], "edges": [], "strings": []}])
def test_no_heap_snapshot_is_an_error_that_the_run_tells(document: dict[str, Any]) -> None:
    with pytest.raises((LookupError, ValueError)):
        Snapshot.parse(document)
