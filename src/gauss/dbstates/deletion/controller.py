"""Deletes states, instances and jobs: the whole tree, or nothing."""

from __future__ import annotations

from collections.abc import Callable

from gauss.dbstates.deletion.tree import DeleteResult, Node, judge
from gauss.dbstates.instances.manager import READY, Instances
from gauss.dbstates.instances.warm_pool import WarmPool
from gauss.dbstates.prepare.context import Context
from gauss.dbstates.prepare.controller import PrepareController
from gauss.dbstates.store.jobs import TERMINAL
from gauss.dbstates.store.metadata import Metadata, Row, now_ms

END_SECONDS = 30.0
REMEMBERED_MS = 86_400_000
"""A deletion that is repeated within this time is answered as the first one."""


class DeletionController:
    """Builds the tree, checks the rules, and deletes."""

    def __init__(self, context: Context, pool: WarmPool, jobs: PrepareController, metadata: Metadata) -> None:
        self._context, self._pool, self._prepare, self._metadata = context, pool, jobs, metadata
        self._instances: Instances = context.instances

    def again(self, id: str, *, dry_run: bool) -> DeleteResult | None:
        """The answer for something that was deleted before: the same once more. A state may have been made anew."""
        kind = self._metadata.value("SELECT kind FROM deleted WHERE id = ?", id)
        if kind is None or self._metadata.value(f"SELECT 1 FROM {kind}s WHERE id = ?", id):
            return None
        return DeleteResult("would_delete" if dry_run else "deleted", dry_run, Node(kind, id))

    def state(self, state: str, *, recurse: bool, force: bool, dry_run: bool) -> DeleteResult:
        cache = self._context.cache
        with cache.lock:
            rows: dict[str, Row] = {}
            root = self._state_node(self._context.states.get(state), rows)
            in_use = {each for each in rows if cache.is_pinned(each)} | self._held(root)
            judge(root, recurse=recurse, force=force, in_use=in_use)
            if root.blocked():
                return DeleteResult("blocked", dry_run, root)
            if dry_run:
                return DeleteResult("would_delete", True, root)
            self._pool.drop(set(rows))
            for node in root.bottom_up():
                if node.kind == "instance":
                    self._remove_instance(node.id)
            cache.remove([rows[node.id] for node in root.bottom_up() if node.kind == "state"])
        for each in rows:
            self._note("state", each)
        return DeleteResult("deleted", False, root)

    def instance(self, instance: str, *, force: bool, dry_run: bool) -> DeleteResult:
        self._instances.row(instance)
        root = Node("instance", instance, self._instances.connections(instance))
        return self._finish(root, force, dry_run, self._held(root), lambda: self._remove_instance(instance))

    def job(self, job: str, *, force: bool, dry_run: bool) -> DeleteResult:
        active = {job} if self._context.jobs.status(job) not in TERMINAL else set()

        def remove() -> None:
            if self._prepare.cancel(job):
                self._prepare.wait(job, END_SECONDS)
            self._prepare.forget(job)
            self._note("job", job)

        return self._finish(Node("job", job), force, dry_run, active, remove)

    def _finish(
        self, root: Node, force: bool, dry_run: bool, in_use: set[str], remove: Callable[[], None]
    ) -> DeleteResult:
        judge(root, recurse=False, force=force, in_use=in_use)
        if root.blocked():
            return DeleteResult("blocked", dry_run, root)
        if not dry_run:
            remove()
        return DeleteResult("would_delete" if dry_run else "deleted", dry_run, root)

    def _state_node(self, row: Row, rows: dict[str, Row]) -> Node:
        """A state with the instances cloned from it and the states made of it; warm instances are not counted."""
        rows[row["id"]] = row
        node = Node("state", row["id"])
        for instance in self._instances.of_state(row["id"]):
            if instance["status"] == READY:
                node.children.append(Node("instance", instance["id"], self._instances.connections(instance["id"])))
        node.children += [self._state_node(child, rows) for child in self._context.states.children(row["id"])]
        return node

    def _held(self, root: Node) -> set[str]:
        """The instances of a tree that have a holder."""
        found = [node.id for node in root.bottom_up() if node.kind == "instance"]
        return {each for each in found if self._instances.is_held(self._instances.row(each))}

    def _remove_instance(self, instance: str) -> None:
        self._instances.remove(instance)
        self._note("instance", instance)

    def _note(self, kind: str, id: str) -> None:
        self._metadata.insert("deleted", id=id, kind=kind, at_ms=now_ms())
        self._metadata.execute("DELETE FROM deleted WHERE at_ms < ?", now_ms() - REMEMBERED_MS)
        self._context.audit.note(f"{kind}_deleted", id=id)
