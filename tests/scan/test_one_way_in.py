"""Topics are read only through the scan engine, and every clause of its contract has a test."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from pathlib import Path
from runpy import run_path

import pytest

from gauss.contracts.cursor import Code, Cursor, Mode, OffsetRange, Output, Program, Seq, Step
from gauss.contracts.storage import Capacity, WriteFull
from gauss.model.errors import Collected, ConfigError
from gauss.scan.tasks import TaskCursor
from gauss.stream.engine.topics.log_topic import LogTopic
from helpers.logs import numbered, open_log

SRC = Path(__file__).parents[2] / "src" / "gauss"
STORAGES = "plugins/storages/"


def _calls(kind: type[ast.Attribute] | type[ast.Name], name: str) -> Iterator[str]:
    """The files that call a function of this name."""
    for file, called in _called():
        if isinstance(called, kind) and (called.attr if isinstance(called, ast.Attribute) else called.id) == name:
            yield file


@functools.cache
def _called() -> list[tuple[str, ast.expr]]:
    return [
        (file.relative_to(SRC).as_posix(), node.func)
        for file in SRC.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
    ]


def test_chunks_of_a_log_are_taken_by_its_cursor_alone() -> None:
    callers = {file for file in _calls(ast.Attribute, "chunks") if not file.startswith(STORAGES)}
    assert callers == {"scan/log_cursor.py"}


@pytest.mark.parametrize(
    ("cursor", "allowed"),
    [
        ("LogCursor", {"scan/log_cursor.py"}),
        ("TableCursor", {"plugins/storages/memory/table.py", "plugins/storages/kafka/newest_rows.py"}),
        ("LogProvider", {"stream/engine/topics/log_topic.py"}),
        ("TableProvider", {"stream/engine/topics/table_topic.py"}),
    ],
)
def test_cursors_are_made_by_their_provider_and_providers_by_their_topic_alone(cursor: str, allowed: set[str]) -> None:
    assert set(_calls(ast.Name, cursor)) <= allowed


@pytest.fixture
def topic(tmp_path: Path) -> LogTopic:
    found = LogTopic("t", open_log("memory", tmp_path), Capacity(100, None, WriteFull.OVERWRITE))
    found.append(numbered(0, 10))
    return found


def _opened(topic: LogTopic, program: Program) -> TaskCursor:
    cursor: Cursor = topic.open(program)
    assert isinstance(cursor, TaskCursor)
    return cursor


def test_reader_of_a_topic_is_a_task_with_counters(topic: LogTopic) -> None:
    cursor = _opened(topic, Program(Seq(), Mode.LIVE, Output.CHUNKS))
    assert list(topic.source.readers) == [cursor.task]
    assert cursor.next(Step(fill=False)) is Code.OK
    _, placed = cursor.read()
    assert isinstance(placed, list)
    used = cursor.task.resources
    assert (used.scan, used.next, used.read, used.errs) == (1, 1, 1, 0)
    assert used.recv == placed[0].chunk.nbytes
    assert topic.source.watermark() == 10
    cursor.close()
    assert list(topic.source.readers) == []
    assert topic.source.watermark() is None


def test_cursor_that_is_forgotten_holds_nothing(topic: LogTopic) -> None:
    cursor = _opened(topic, Program())
    assert topic.source.open_cursors() == 1
    del cursor
    assert topic.source.open_cursors() == 0


def test_refused_scan_raises_what_the_provider_said(topic: LogTopic) -> None:
    with pytest.raises(ConfigError, match="up to 10"):
        topic.open(Program(Seq(11)))
    for first in range(10, 200, 10):
        topic.append(numbered(first, 10))
    with pytest.raises(Collected):
        topic.open(Program(OffsetRange(0, 5)))
    assert topic.source.open_cursors() == 0


CONFORMANCE = run_path(str(SRC.parents[1] / "docs" / "conformance.py"))


def test_every_clause_has_a_test() -> None:
    assert [clause.name for clause in CONFORMANCE["clauses"]() if clause.state() != "holds"] == []


def test_page_is_what_the_tests_say() -> None:
    assert CONFORMANCE["PAGE"].read_text(encoding="utf-8") == CONFORMANCE["page"](), "run `make docs`"
