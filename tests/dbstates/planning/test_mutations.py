"""Keys change if and only if the result can: random script trees with labelled mutations."""

from __future__ import annotations

import os
import random
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from gauss.dbstates.adapters.psql import Psql
from helpers.cases import cases
from helpers.script_trees import Tree, irrelevant, random_tree, relevant

MUTATIONS = 25
MEMORY = Path("/dev/shm")


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory, where the system has one: tens of thousands of files are written."""
    if not os.access(MEMORY, os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=MEMORY) as made:
        yield Path(made)


def key(tree: Tree, folder: Path, written: dict[str, str]) -> list[str]:
    tree.write(folder, written)
    return [step.content for step in Psql().plan(tree.args(), folder, tree.env).steps]


def test_ten_thousand_mutations_give_no_false_hit_and_no_false_miss(folder: Path) -> None:
    tried, written = 0, dict[str, str]()
    for seed in range(cases(1000)):
        chance = random.Random(seed)
        tree = random_tree(chance)
        before = key(tree, folder, written)
        for number in range(MUTATIONS):
            if number % 2:
                mutated, hit = irrelevant(tree, chance), True
            else:
                changed = None
                while changed is None:
                    changed = relevant(tree, chance)
                mutated, hit = changed, False
            after = key(mutated, folder, written)
            assert (after == before) is hit, f"seed {seed}, mutation {number}: {'miss' if hit else 'hit'}"
            tried += 1
    assert tried == cases(1000) * MUTATIONS
