"""Scripts with the same key give the same database, on a real server."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from gauss.clients.postgres.binaries import bin_folder, run_as
from gauss.dbstates.adapters.psql import Psql
from helpers.cases import cases
from helpers.script_trees import Tree, irrelevant, random_tree
from helpers.step_server import StepServer

pytestmark = pytest.mark.system
PSQL = str(bin_folder(run_as()) / "psql")


def by_steps(server: StepServer, tree: Tree, folder: Path) -> tuple[list[str], list[object]]:
    """The key of a tree, and the content of the database after its steps."""
    adapter = Psql(PSQL)
    plan = adapter.plan(tree.args(), folder, tree.env)
    server.empty()
    server.run(adapter, plan)
    return [step.content for step in plan.steps], server.content()


def test_two_hundred_scripts_of_equal_key_give_equal_databases_in_steps_and_at_once(
    step_server: StepServer, tmp_path: Path
) -> None:
    cut = 0
    for seed in range(cases(125)):
        chance, written = random.Random(10_000 + seed), dict[str, str]()
        tree = random_tree(chance)
        tree.write(tmp_path, written)
        step_server.empty()
        step_server.start((PSQL, "-X", "-v", "ON_ERROR_STOP=1", *tree.args()), tree.env, tmp_path)
        expected = step_server.content()
        key, content = by_steps(step_server, tree, tmp_path)
        assert content == expected, f"seed {seed}: steps differ from one psql"
        cut += len(key) > 1
        for _ in range(2):
            mutated = irrelevant(tree, chance)
            mutated.write(tmp_path, written)
            assert by_steps(step_server, mutated, tmp_path) == (key, expected), f"seed {seed}"
    assert cut > cases(125) // 4
