"""Trees of deletions, on the metadata of a store alone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from gauss.dbstates.deletion.controller import DeletionController
from gauss.dbstates.deletion.tree import DEEPEST, Node, judge
from gauss.dbstates.engine.engine import DatabaseEngine
from gauss.dbstates.instances.manager import READY
from gauss.dbstates.store.layout import StateDir
from helpers.states import add_state

LONG = 2000


@pytest.fixture
def idle(tmp_path: Path) -> Iterator[DatabaseEngine]:
    """An engine in this process, which runs nothing."""
    engine = DatabaseEngine(StateDir.of(tmp_path))
    yield engine
    engine.metadata.close()


def test_a_long_chain_is_judged_and_told() -> None:
    root = node = Node("state", "0")
    for depth in range(1, LONG):
        node.children.append(Node("state", str(depth)))
        node = node.children[0]
    node.children.append(Node("instance", "i", connections=1))
    judge(root, recurse=True, force=False, in_use=set())
    assert [each.reason for each in root.top_down()] == ["blocked_by_descendant"] * LONG + ["active_connections"]


def test_a_long_chain_is_deleted_with_recurse(idle: DatabaseEngine) -> None:
    parent = "base"
    with idle.metadata.transaction():
        for number in range(LONG):
            parent = add_state(idle.states, f"{number:064x}", parent=parent)
    deletion: DeletionController = idle.deletion
    dry = deletion.state(f"{0:064x}", recurse=True, force=False, dry_run=True)
    told = json.loads(json.dumps(dry.json()))["root"]
    for level in range(1, DEEPEST):
        (told,) = told["children"]
        assert told["id"] == f"{level:064x}"
    assert [node["id"] for node in told["children"]] == [f"{level:064x}" for level in range(DEEPEST, LONG)]
    assert idle.states.is_ready(parent)
    assert deletion.state(f"{0:064x}", recurse=True, force=False, dry_run=False).outcome == "deleted"
    assert idle.states.all() == []


def test_an_instance_that_can_not_be_removed_with_its_state_is_removed_later(idle: DatabaseEngine) -> None:
    state = add_state(idle.states, "a" * 64)
    idle.metadata.insert(
        "instances", id="b" * 32, state=state, status=READY, image="", runtime="no-such", runtime_id="", port=0,
        password="", job="", created_ms=0, used_ms=0, ttl_ms=0,
    )  # fmt: skip
    assert idle.deletion.state(state, recurse=True, force=False, dry_run=False).outcome == "deleted"
    assert idle.states.all() == []
    assert idle.instances.rows(READY) == []


def test_a_deletion_is_repeated_by_the_first_digits_of_its_id(idle: DatabaseEngine) -> None:
    state = add_state(idle.states, "ab" * 32)
    idle.deletion.state(state, recurse=False, force=False, dry_run=False)
    for given in (state, state[:8]):
        again = idle.deletion.again("state", given, dry_run=False)
        assert again is not None and (again.outcome, again.root.id) == ("deleted", state)
    for kind, given in (("state", state[:7]), ("instance", state[:8]), ("state", "ab%"), ("state", "cd" * 4)):
        assert idle.deletion.again(kind, given, dry_run=False) is None  # type: ignore[arg-type]
    add_state(idle.states, state)
    assert idle.deletion.again("state", state[:8], dry_run=False) is None
