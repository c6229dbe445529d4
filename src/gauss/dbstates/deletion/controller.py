"""Deletes states, instances and jobs: the whole tree, or nothing."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Literal

from gauss.dbstates.deletion.tree import DeleteResult, Node, judge
from gauss.dbstates.instances.manager import READY, Instances
from gauss.dbstates.instances.warm_pool import WarmPool
from gauss.dbstates.prepare.context import Context
from gauss.dbstates.prepare.controller import PrepareController
from gauss.dbstates.store.jobs import TERMINAL
from gauss.dbstates.store.metadata import Metadata, Row, now_ms
from gauss.dbstates.store.states import SHORTEST_PREFIX
from gauss.model.errors import GaussError, Unavailable

Kind = Literal["state", "instance", "job"]
TRIES = 10
END_SECONDS = 30.0
REMEMBERED_MS = 86_400_000
"""A deletion that is repeated within this time is answered as the first one."""


class DeletionController:
    """Builds the tree, checks the rules, and deletes."""

    def __init__(self, context: Context, pool: WarmPool, jobs: PrepareController, metadata: Metadata) -> None:
        self._context, self._pool, self._prepare, self._metadata = context, pool, jobs, metadata
        self._instances: Instances = context.instances

    def again(self, kind: Kind, given: str, *, dry_run: bool) -> DeleteResult | None:
        """The answer for something that was deleted before: the same once more. A state may have been made anew."""
        if len(given) < SHORTEST_PREFIX or given.strip("0123456789abcdef"):
            return None
        begins = "id >= ? AND id < ?"
        living = self._metadata.value(f"SELECT 1 FROM {kind}s WHERE {begins}", given, f"{given}g")
        query = f"SELECT id FROM deleted WHERE kind = ? AND {begins}"
        known = self._metadata.rows(query, kind, given, f"{given}g")
        if living or len(known) != 1:
            return None
        return DeleteResult("would_delete" if dry_run else "deleted", dry_run, Node(kind, known[0]["id"]))

    def state(self, state: str, *, recurse: bool, force: bool, dry_run: bool) -> DeleteResult:
        """The whole tree is gone when this returns, but for servers and files that can't be removed yet."""
        cache = self._context.cache
        for _ in range(TRIES):
            root, rows = self._tree(state)
            for node in root.top_down():  # servers may take seconds to answer, in which jobs go on
                if node.kind == "instance":
                    node.connections = self._instances.connections(node.id)
            with cache.lock:
                if not _same(root, self._tree(state)[0]):
                    continue  # there is more to ask
                in_use = {each for each in rows if cache.is_pinned(each)} | self._held(root)
                judge(root, recurse=recurse, force=force, in_use=in_use)
                if root.blocked():
                    return DeleteResult("blocked", dry_run, root)
                if dry_run:
                    return DeleteResult("would_delete", True, root)
                aside = self._forget(root, rows)
            self._pool.drop(set(rows))
            for node in root.bottom_up():
                if node.kind == "instance":
                    with suppress(GaussError):  # it is removed later
                        self._instances.remove(node.id)
            cache.clear(aside)
            for node in root.bottom_up():
                self._context.audit.note(f"{node.kind}_deleted", id=node.id)
            return DeleteResult("deleted", False, root)
        raise Unavailable("states or instances are made of it all the time", hint="try again")

    def _forget(self, root: Node, rows: dict[str, Row]) -> list[Path]:
        """Forgets a tree, all of it or nothing; returns the folders to remove."""
        nodes = list(root.bottom_up())
        with self._metadata.transaction():
            self._context.states.remove(list(rows))
            self._instances.lose(node.id for node in nodes if node.kind == "instance")
            for node in nodes:
                self._remember(node.kind, node.id)
        return self._context.cache.put_aside(list(rows.values()))

    def instance(self, instance: str, *, force: bool, dry_run: bool) -> DeleteResult:
        self._instances.row(instance)
        root = Node("instance", instance, connections=self._instances.connections(instance))
        return self._finish(root, force, dry_run, self._held(root), lambda: self._remove_instance(instance))

    def job(self, job: str, *, force: bool, dry_run: bool) -> DeleteResult:
        active = {job} if self._context.jobs.status(job) not in TERMINAL else set()

        def remove() -> None:
            if self._prepare.cancel(job):
                self._prepare.wait(job, END_SECONDS)
            self._prepare.forget(job)
            self._remember("job", job)
            self._context.audit.note("job_deleted", id=job)

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

    def _tree(self, state: str) -> tuple[Node, dict[str, Row]]:
        """A state with the instances cloned from it and the states made of it; warm instances are not counted. And the
        states of the tree by their ids."""
        rows = {state: self._context.states.get(state)}
        root = Node("state", state)
        left = [root]
        while left:
            node = left.pop()
            for instance in self._instances.of_state(node.id):
                if instance["status"] == READY:
                    node.children.append(Node("instance", instance["id"]))
            for row in self._context.states.children(node.id):
                rows[row["id"]] = row
                node.children.append(Node("state", row["id"]))
            left += [child for child in node.children if child.kind == "state"]
        return root, rows

    def _held(self, root: Node) -> set[str]:
        """The instances of a tree that have a holder."""
        known = {row["id"]: row for row in self._instances.rows(READY)}
        found = [node.id for node in root.top_down() if node.kind == "instance"]
        return {each for each in found if each in known and self._instances.is_held(known[each])}

    def _remove_instance(self, instance: str) -> None:
        self._instances.remove(instance)
        self._remember("instance", instance)
        self._context.audit.note("instance_deleted", id=instance)

    def _remember(self, kind: Kind, id: str) -> None:
        self._metadata.insert("deleted", id=id, kind=kind, at_ms=now_ms())
        self._metadata.execute("DELETE FROM deleted WHERE at_ms < ?", now_ms() - REMEMBERED_MS)


def _same(one: Node, other: Node) -> bool:
    return [node.id for node in one.top_down()] == [node.id for node in other.top_down()]
