"""Layout in columns: each node is right of its inputs."""

from __future__ import annotations

import itertools
from typing import NamedTuple

from gauss.stream.graph import Graph


class Node(NamedTuple):
    """A topic or a processor; the two kinds may share a name."""

    kind: str
    name: str


class Arrow(NamedTuple):
    source: Node
    target: Node
    label: str


def edges(graph: Graph) -> list[Arrow]:
    """All arrows; those from a topic are labelled with the read mode."""
    found = []
    for name, processor in graph.processors.items():
        node = Node("processor", name)
        found += [Arrow(Node("topic", reading.topic), node, reading.read) for reading in processor.sources]
        found += [Arrow(node, Node("topic", target), "") for target in processor.targets]
    return found


def columns(graph: Graph) -> list[list[Node]]:
    """Nodes by column, each column in an order that keeps arrows short and rarely crossing."""
    nodes = [Node("processor", name) for name in graph.processors] + [Node("topic", name) for name in graph.topics]
    arrows = edges(graph)
    depth = dict.fromkeys(nodes, 0)
    # The longest path to each node; the number of rounds is bounded because of cycles.
    for _ in nodes:
        moved = False
        for arrow in arrows:
            if depth[arrow.target] < depth[arrow.source] + 1 < len(nodes):
                depth[arrow.target] = depth[arrow.source] + 1
                moved = True
        if not moved:
            break
    used = sorted(set(depth.values()))
    found = [[node for node in nodes if depth[node] == level] for level in used]
    for _ in range(4):
        _settle(found, arrows)
    return found


def _settle(found: list[list[Node]], arrows: list[Arrow]) -> None:
    """Orders each column by the average position of its inputs."""
    for left, column in itertools.pairwise(found):
        rows = {node: row for row, node in enumerate(left)}
        own = {node: row for row, node in enumerate(column)}

        def middle(node: Node, rows: dict[Node, int] = rows, own: dict[Node, int] = own) -> float:
            near = [rows[arrow.source] for arrow in arrows if arrow.target == node and arrow.source in rows]
            return sum(near) / len(near) if near else own[node]

        column.sort(key=middle)
