"""What a deletion would remove: a tree of states, instances and jobs, each with the reason that forbids it.

A chain may have thousands of states, so that nothing here recurses beyond a limit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

ACTIVE_CONNECTIONS = "active_connections"
ACTIVE_TASKS = "active_tasks"
HAS_DESCENDANTS = "has_descendants"
BLOCKED_BY_DESCENDANT = "blocked_by_descendant"

DEEPEST = 100
"""Levels of an answer. Many readers of JSON accept a few hundred nested values."""

Outcome = Literal["deleted", "would_delete", "blocked"]


@dataclass
class Node:
    """A state, an instance or a job."""

    kind: Literal["state", "instance", "job"]
    id: str
    connections: int = 0
    reason: str = ""
    children: list[Node] = field(default_factory=list, repr=False)

    def json(self, level: int = 0) -> dict[str, Any]:
        """The tree below it. What is below the deepest level of an answer is listed in that level."""
        if level + 1 < DEEPEST:
            children = [child.json(level + 1) for child in self.children]
        else:
            children = [node._json([]) for node in self.top_down() if node is not self]
        return self._json(children)

    def _json(self, children: list[dict[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {"kind": self.kind, "id": self.id, "connections": self.connections}
        if self.reason:
            found["reason"] = self.reason
        return {**found, "children": children}

    def top_down(self) -> Iterator[Node]:
        """Each node after its parent, in the order of a tree."""
        left = [self]
        while left:
            node = left.pop()
            yield node
            left += reversed(node.children)

    def bottom_up(self) -> Iterator[Node]:
        """Children before their parents: the order of deletion."""
        return reversed(list(self.top_down()))

    def blocked(self) -> bool:
        return any(node.reason for node in self.top_down())


@dataclass(frozen=True)
class DeleteResult:
    """What a deletion did, or would do."""

    outcome: Outcome
    dry_run: bool
    root: Node

    def json(self) -> dict[str, Any]:
        return {"outcome": self.outcome, "dry_run": self.dry_run, "root": self.root.json()}


def judge(root: Node, *, recurse: bool, force: bool, in_use: set[str]) -> None:
    """Sets the reasons. `force` overrides connections and what is asked for by `recurse` is nothing else: a state with
    descendants needs `recurse` even with `force`. `in_use` are states and jobs of running tasks, and instances with a
    holder; `force` overrides jobs and instances."""
    if root.kind == "state" and root.children and not recurse:
        root.reason = HAS_DESCENDANTS
    for node in root.bottom_up():
        if node.reason:
            continue
        if node.id in in_use and not (node.kind != "state" and force):
            node.reason = ACTIVE_TASKS
        elif node.connections and not force:
            node.reason = ACTIVE_CONNECTIONS
        elif any(child.reason for child in node.children):
            node.reason = BLOCKED_BY_DESCENDANT
