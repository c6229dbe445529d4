"""The memory table: keys, capacity, views, and the tail of changes."""

from __future__ import annotations

import pytest

from gauss.contracts.cursor import (
    Code,
    KeyRange,
    Last,
    Mode,
    OffsetRange,
    Output,
    Point,
    Prefix,
    Program,
    Seq,
    Step,
    TimeRange,
    View,
)
from gauss.contracts.storage import TableAppended
from gauss.model.errors import Collected, ConfigError
from gauss.plugins.storages.memory import table as tables
from gauss.plugins.storages.memory.table import MemoryTable
from helpers.logs import arrow
from helpers.scan_worlds import run_child
from helpers.tables import json_format, open_table, record, rows, stage, upsert, watermark

LIVE = Program(mode=Mode.LIVE)


def keys(table: MemoryTable, view: View | None = None) -> list[str]:
    return [row["key"] for row in rows(table.open(Program(view or Seq())))]


def values(table: MemoryTable) -> dict[str, bytes]:
    return {row["key"]: row["data"] for row in rows(table.open(Program()))}


def test_new_table_is_empty_at_version_0() -> None:
    table = open_table()
    assert (table.end, table.rows, table.bytes, table.floor, watermark(table)) == (0, 0, 0, 0, 0)
    assert table.open(Program()).next(Step()) is Code.INVALID


def test_newest_record_of_each_key_stays_as_its_bytes() -> None:
    table = open_table()
    upsert(table, record("b", 1), record("a", 1), b' {"v":9,  "k":"b"} ')
    assert values(table) == {"a": record("a", 1), "b": b' {"v":9,  "k":"b"} '}
    assert table.end == 3


def test_rows_come_in_the_order_of_their_keys_bytes() -> None:
    table = open_table()
    names = ["é", "z", "", "a", "\U0001f600", "\uffff", "B", "aa"]
    upsert(table, *(record(name) for name in names))
    assert keys(table) == sorted(names, key=str.encode)


def test_whole_number_is_a_key_by_its_digits_and_other_kinds_are_dead_letters() -> None:
    table = open_table()
    bad = [b'{"k": 1.5}', b'{"k": true}', b'{"k": ["x"]}', b'{"k": null}', b"{}", b"[]", b"", b'{"k": "\xff"}']
    taken, letters = upsert(table, record(7, 1), record("7", 2), *bad, record(-3))
    assert taken == TableAppended(3)
    assert values(table) == {"-3": record(-3), "7": record("7", 2)}
    assert [letter.data for letter in letters] == bad
    assert [letter.reason for letter in letters] == [
        *["wrong_type"] * 3,
        *["missing_key"] * 2,
        "not_object",
        "bad_json",
        "bad_utf8",
    ]
    assert {(letter.topic, letter.inc, letter.stage) for letter in letters} == {("t", 7, "decode")}


def test_key_may_be_a_path() -> None:
    table = open_table(key_field="$.order.id")
    upsert(table, b'{"order": {"id": "x"}}', b'{"order": {"id": 12}}')
    assert keys(table) == ["12", "x"]


def test_declared_key_of_a_number_type_counts_as_its_digits() -> None:
    format_ = json_format({"fields": [{"name": "id", "type": "int64"}, {"name": "gone", "type": "bool"}]})
    table = open_table(format_, key_field="id")
    _, letters = upsert(table, b'{"id": 12}', b'{"id": "12"}')
    assert keys(table) == ["12"]
    assert [letter.reason for letter in letters] == ["wrong_type"]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ([{"name": "other", "type": "string"}], 'no field "k"'),
        ([{"name": "k", "type": "double"}], "text or a whole number"),
        ([{"name": "k", "type": "string"}], 'no field "gone"'),
    ],
)
def test_format_that_lacks_what_the_table_names_is_refused_at_start(fields: list[object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        open_table(json_format({"fields": fields}))


def test_deletion_removes_the_key_and_counts_as_an_event() -> None:
    table = open_table()
    upsert(table, record("a"), record("b"))
    upsert(table, record("a", gone=True), record("never", gone=True))
    assert (keys(table), table.end, table.rows) == (["b"], 4, 1)
    upsert(table, record("a", 2), record("a", gone=True), record("a", 3))
    assert values(table)["a"] == record("a", 3)


def test_rolled_back_epoch_leaves_no_trace() -> None:
    table = open_table()
    upsert(table, record("a", 1), ts_ms=5)
    before = (table.end, table.rows, table.bytes, table.last_ts(), values(table))
    stage(table, arrow(record("a", gone=True), record("b"), ts_ms=9))
    stage(table, arrow(record("c"), ts_ms=10))
    assert table.staged_end == 4
    table.rollback()
    assert (table.end, table.rows, table.bytes, table.last_ts(), values(table)) == before
    upsert(table, record("b"))
    assert (table.end, keys(table)) == (2, ["a", "b"])


def test_time_never_goes_back() -> None:
    table = open_table()
    upsert(table, record("a"), record("b"), record("c"), ts_ms=[5, 3, 8])
    upsert(table, record("d"), ts_ms=2)
    assert [row["ts_ms"] for row in rows(table.open(Program()))] == [5, 5, 8, 8]


# --- capacity ---


def test_full_table_refuses_new_keys_and_goes_on_with_those_it_has() -> None:
    table = open_table(storage_size=2)
    assert upsert(table, record("a"), record("b"), record("c"))[0] == TableAppended(2, 1)
    assert upsert(table, record("d"), record("a", 2), record("d", 3))[0] == TableAppended(1, 2)
    assert values(table) == {"a": record("a", 2), "b": record("b")}
    upsert(table, record("b", gone=True))
    assert upsert(table, record("d"))[0] == TableAppended(1)
    assert (keys(table), table.rows) == (["a", "d"], 2)


def test_table_full_by_bytes_refuses_new_keys() -> None:
    size = tables.KEY_BYTES + 2 + len(record("a"))
    table = open_table(storage_bytes=2 * size)
    assert upsert(table, record("a"), record("b"), record("c"))[0] == TableAppended(2, 1)
    assert table.bytes == 2 * size


_TINY_KEYS = """
import gc, sys, psutil
from helpers.logs import lines
from helpers.tables import open_table, upsert
table, process = open_table(storage_bytes=int(sys.argv[1])), psutil.Process()
for key in range(3):  # what decodes keys is made first
    upsert(table, *(b'{"k":"%d"}' % number for number in range(key, key + 1000)))
gc.collect()
before, number, dropped = process.memory_info().rss, 0, 0
while not dropped:
    dropped = upsert(table, *(b'{"k":"%d"}' % key for key in range(number, number + 1000)))[0].dropped
    number += 1000
    if number % 50_000 == 0:
        table.maintain()
print(table.rows, table.bytes, process.memory_info().rss - before)
"""


def test_bound_of_tiny_keys_is_about_what_the_process_takes() -> None:
    limit = 32 << 20
    rows_, counted, grown = map(int, run_child(_TINY_KEYS, limit).split())
    assert rows_ > 50_000
    assert limit - (1 << 20) < counted <= limit
    assert grown < 2 * limit


def test_single_row_above_the_bound_passes_alone() -> None:
    table = open_table(storage_bytes=10)
    assert upsert(table, record("a"), record("b"))[0] == TableAppended(1, 1)


def test_overwrite_deletes_the_keys_whose_last_change_is_oldest() -> None:
    table = open_table(storage_size=2, write_full="overwrite")
    live = table.open(LIVE)
    upsert(table, record("a"), record("b"))
    upsert(table, record("a", 2))
    assert upsert(table, record("c"))[0] == TableAppended(1, 0, 1)
    assert (keys(table), table.end) == (["a", "c"], 5)
    assert [(row["key"], row["deleted"], row["data"]) for row in rows(live)][-1] == ("b", True, b"")


# --- views ---


@pytest.mark.parametrize(
    ("view", "expected"),
    [
        (Seq(), ["a", "ab", "abc", "b", "c"]),
        (KeyRange("ab", "b"), ["ab", "abc"]),
        (KeyRange(None, "ab"), ["a"]),
        (KeyRange("b", None), ["b", "c"]),
        (KeyRange("b", "b"), []),
        (Prefix("ab"), ["ab", "abc"]),
        (Prefix(""), ["a", "ab", "abc", "b", "c"]),
        (Point("ab"), ["ab"]),
        (Point("aba"), []),
        (TimeRange(2, 4), ["ab", "abc"]),
        (TimeRange(4), ["b", "c"]),
    ],
)
def test_view_holds_its_rows_in_every_layout(view: View, expected: list[str]) -> None:
    table = open_table()
    names = ["a", "ab", "abc", "b", "c"]
    for at, name in enumerate(names, start=1):
        upsert(table, record(name), ts_ms=at)
    assert keys(table, view) == expected
    table.maintain()
    table.maintain()
    assert keys(table, view) == expected


@pytest.mark.parametrize("last", ["\ud7ff", "\U0010ffff", "z"])
def test_prefix_ends_where_no_more_key_begins_so(last: str) -> None:
    table = open_table()
    upsert(table, record(f"p{last}"), record(f"p{last}\U0010ffff"), record("q"), record("p"))
    assert keys(table, Prefix(f"p{last}")) == [f"p{last}", f"p{last}\U0010ffff"]


@pytest.mark.parametrize(
    "program",
    [
        Program(Last()),
        Program(OffsetRange(0, 1)),
        Program(KeyRange("b", "a")),
        Program(TimeRange(2, 1)),
        Program(TimeRange(0, 1), Mode.LIVE),
        Program(Seq(9)),
        Program(Seq(9), Mode.LIVE),
        Program(output=Output.CHUNKS),
    ],
)
def test_program_that_a_table_can_not_run_is_refused_and_pins_nothing(program: Program) -> None:
    table = open_table()
    upsert(table, record("a"))
    with pytest.raises(ConfigError):
        table.open(program)
    upsert(table, record("b"))
    assert watermark(table) == 2


def test_batches_do_not_depend_on_how_rows_lie() -> None:
    def cut(table: MemoryTable, step: Step) -> list[list[str]]:
        cursor, found = table.open(Program()), []
        while cursor.next(step) is Code.OK:
            batch = cursor.read()[1]
            assert batch is not None
            found.append(batch.column("key").to_pylist())
        return found

    table = open_table()
    for number in range(40):
        upsert(table, record(f"k{number * 7 % 40:02}", number))
    steps = [Step(7), Step(1000), Step(1000, 200), Step(1, 1)]
    before = [cut(table, step) for step in steps]
    assert [len(batch) for batch in before[0]] == [7, 7, 7, 7, 7, 5]
    table.maintain()
    table.maintain()
    assert [cut(table, step) for step in steps] == before


def test_seek_goes_on_at_a_key_of_the_view() -> None:
    table = open_table()
    upsert(table, *(record(name) for name in "abcdef"))
    cursor = table.open(Program(KeyRange("b", "f")))
    rows(cursor)
    assert cursor.seek("d") and [row["key"] for row in rows(cursor)] == ["d", "e"]
    assert cursor.seek("bb") and [row["key"] for row in rows(cursor)] == ["c", "d", "e"]
    assert not any(cursor.seek(to) for to in ("a", "f", "z", 3))


# --- versions ---


def test_snapshot_does_not_see_what_comes_after_it() -> None:
    table = open_table()
    upsert(table, record("a", 1), record("b", 1))
    cursor = table.open(Program())
    assert cursor.next(Step(1)) is Code.OK
    upsert(table, record("b", gone=True), record("c"), record("a", 2))
    table.maintain()
    table.maintain()
    assert [row["data"] for row in rows(cursor)] == [record("b", 1)]
    assert cursor.pinned_version == 2


def test_live_scan_of_a_range_gets_only_its_keys() -> None:
    table = open_table()
    upsert(table, record("a1"), record("b1"))
    live = table.open(Program(Prefix("a"), Mode.LIVE))
    assert [row["key"] for row in rows(live)] == ["a1"]
    upsert(table, record("b2"), record("a2"), record("b3"))
    assert [(row["key"], row["version"]) for row in rows(live)] == [("a2", 4)]
    assert live.position == 5


def test_live_scan_from_a_version_gets_the_tail_alone_while_somebody_keeps_it() -> None:
    table = open_table()
    upsert(table, record("a"))
    holder = table.open(LIVE)
    upsert(table, record("b"))
    upsert(table, record("c"), record("d"))
    assert [row["key"] for row in rows(table.open(Program(Seq(1), Mode.LIVE)))] == ["b", "c", "d"]
    assert table.floor == 1
    holder.close()


def test_tail_that_nobody_keeps_is_collected() -> None:
    table = open_table()
    upsert(table, record("a"))
    upsert(table, record("b"))
    with pytest.raises(Collected):
        table.open(Program(Seq(1), Mode.LIVE))
    assert watermark(table) == 2


def test_live_reader_too_far_behind_is_rejected_for_good_and_lets_go() -> None:
    table = open_table(tail_bytes="16KiB")
    slow, quick = table.open(LIVE), table.open(LIVE)
    for number in range(300):
        upsert(table, record("a", number), record("b" * 100, number))
        assert len(rows(quick)) == 2
    assert [slow.next(Step()) for _ in range(2)] == [Code.REJECTED] * 2
    assert slow.read() == (Code.REJECTED, None)
    slow.close()
    assert watermark(table) == table.end == 600


def test_watermark_is_the_lowest_version_that_a_cursor_holds() -> None:
    table = open_table()
    upsert(table, record("a"))
    first = table.open(Program())
    live = table.open(LIVE)
    upsert(table, record("b"))
    second = table.open(Program())
    assert watermark(table) == 1
    rows(live)
    first.close()
    assert watermark(table) == 2
    upsert(table, record("c"))
    assert watermark(table) == 2
    second.close()
    live.close()
    assert watermark(table) == 3


def test_deletion_outlives_the_merge_of_runs_above_the_base(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "SEAL_ROWS", 1)
    table = open_table()
    upsert(table, *(record(f"k{number}") for number in range(9)))
    upsert(table, record("k5", gone=True))
    upsert(table, record("x"))
    upsert(table, record("y"))
    assert [run.rows for run in table._root.sealed] == [9, 1, 1]
    table.maintain()
    assert len(table._root.sealed) == 2
    assert "k5" not in keys(table)
    table.maintain()
    table.maintain()
    assert (len(table._root.sealed), "k5" in keys(table)) == (1, False)
