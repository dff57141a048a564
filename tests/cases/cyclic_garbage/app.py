"""Builds a tree whose nodes know their parent, and keeps the last 200. Large tables make a full collection rare."""

import collections
import gc

tables = [{"row": number, "text": str(number)} for number in range(50_000)]
gc.collect()
recent: collections.deque["Node"] = collections.deque(maxlen=200)


class Node:
    def __init__(self, parent: "Node | None") -> None:
        self.parent = parent
        self.children: list[Node] = []
        self.text = bytearray(2000)
        if parent:
            parent.children.append(self)


def handler(event: object, context: object) -> int:
    root = Node(None)
    for _ in range(20):
        Node(root)
    recent.append(root)
    return len(root.children)
