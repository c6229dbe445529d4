"""Held versions of a table: they can be read repeatedly, with the changes since."""

from __future__ import annotations

import pytest

from gauss.contracts.cursor import Mode, Prefix, Program, Seq
from gauss.model.errors import Collected, ConfigError
from gauss.plugins.storages.memory.table import MemoryTable
from helpers.tables import open_table, record, rows, upsert


def values(table: MemoryTable, version: int) -> dict[str, bytes]:
    return {row["key"]: row["data"] for row in rows(table.open(Program(held=version)))}


def changes(table: MemoryTable, version: int) -> list[str]:
    return [row["key"] for row in rows(table.open(Program(Seq(version), Mode.LIVE)))]


def test_held_version_is_read_as_it_was_whatever_is_written_and_merged_meanwhile() -> None:
    table = open_table()
    upsert(table, record("a", 1), record("b", 1))
    version = table.hold()
    for number in range(2, 5_000, 7):
        upsert(table, record("a", number), record(f"k{number}"))
    table.maintain()
    table.maintain()
    assert values(table, version) == {"a": record("a", 1), "b": record("b", 1)}


def test_version_is_gone_once_every_hold_was_let_go() -> None:
    table = open_table()
    upsert(table, record("a", 1))
    first, second = table.hold(), table.hold()
    upsert(table, record("a", 2))
    table.unpin(first)
    assert values(table, second) == {"a": record("a", 1)}
    table.unpin(second)
    with pytest.raises(Collected, match="no longer kept"):
        table.open(Program(held=second))


def test_program_of_a_client_names_no_version_of_a_snapshot_even_a_held_one() -> None:
    table = open_table()
    upsert(table, record("a", 1))
    version = table.hold()
    upsert(table, record("a", 2))
    with pytest.raises(ConfigError, match="of the newest version, which is 2"):
        table.open(Program(Seq(version)))


def test_changes_since_a_version_are_there_after_it_was_let_go() -> None:
    table = open_table()
    upsert(table, record("a", 1))
    version = table.hold()
    upsert(table, record("b", 1), record("a", 2))
    table.unpin(version)
    upsert(table, record("c", 1))
    assert changes(table, version) == ["b", "a", "c"]


def test_changes_since_a_version_in_the_middle_of_a_write_are_the_later_ones() -> None:
    table = open_table()
    upsert(table, record("a", 1))
    table.unpin(table.hold())
    upsert(table, record("b", 1), record("c", 1), record("d", 1))
    upsert(table, record("e", 1))
    assert [changes(table, version) for version in range(1, 6)] == [[*"bcde"], [*"cde"], [*"de"], ["e"], []]
    only_d = table.open(Program(Prefix("d"), Mode.LIVE))
    assert rows(only_d) and only_d.position == 5


def test_changes_that_are_more_than_the_tail_keeps_are_gone() -> None:
    table = open_table(tail_bytes=2_000)
    upsert(table, record("a", 1))
    version = table.hold()
    for number in range(200):
        upsert(table, record("b", number))
    with pytest.raises(Collected):
        table.open(Program(Seq(version), Mode.LIVE))
    assert values(table, version) == {"a": record("a", 1)}
