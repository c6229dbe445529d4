"""Rules for the tests themselves."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

TESTS = Path(__file__).parent
WAITING = {"until", "eventually", "wait_until"}


@cache
def trees() -> list[tuple[str, ast.Module]]:
    return [(str(path.relative_to(TESTS)), ast.parse(path.read_text())) for path in sorted(TESTS.rglob("*.py"))]


def test_no_test_imports_another_test() -> None:
    found = [
        f"{path}:{node.lineno} imports {node.module}"
        for path, tree in trees()
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module
        if node.module.split(".")[-1].startswith("test_")
    ]
    assert not found, f"move what is shared to tests/helpers: {found}"


def test_waiting_for_an_event_is_written_once() -> None:
    found = [
        f"{path}:{node.lineno} {node.name}"
        for path, tree in trees()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and node.name.strip("_") in WAITING
    ]
    assert [each.split(":")[0] for each in found] == ["helpers/waiting.py"], found
