"""Scans of the newest record of each key of a Kafka topic: as of a table, frozen at the ends at which they began."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from gauss.clients.kafka.admin import Admin
from gauss.contracts.cursor import Code, KeyRange, Mode, Point, Prefix, Program, Seq, Step, TimeRange
from gauss.model.errors import ConfigError, GaussError, Rejected
from gauss.plugins.storages.kafka import newest_rows
from gauss.plugins.storages.kafka.shared_log import KafkaLog
from gauss.scan.program.parse import parse_scan
from gauss.scan.sources import SourceTask
from gauss.scan.tasks import TaskCursor
from helpers.kafka import NOW, Given, produce
from helpers.kafka_topics import Topics
from helpers.waiting import wait_until

Written = Callable[..., None]


class Table:
    """A topic with records by key, and scans of its rows."""

    def __init__(self, topics: Topics, admin: Admin, partitions: int = 1, **given: Any) -> None:
        self.settings = topics.kafka.settings
        self.config = topics.kafka.topic(**given)
        admin.create(self.config["topic"], partitions)
        self.log: KafkaLog = topics.open(self.config)
        provider = self.log.rows()
        assert provider is not None
        self.source = SourceTask("t", provider, rows=True)

    def write(self, text: str, partition: int = 0, *, first_ts: int = NOW, commit: bool | None = None) -> None:
        """Writes records such as `a=1`, and tombstones such as `a`, in a transaction if `commit` is given."""
        pairs = [each.partition("=") for each in text.split()]
        records: list[Given] = [(data.encode() if mark else None, key.encode(), []) for key, mark, data in pairs]
        ending = None if commit is None else lambda _: commit
        produce(self.settings, self.config["topic"], records, partition=partition, first_ts=first_ts, commit=ending)

    def open(self, program: Program | str = "") -> TaskCursor:
        return TaskCursor(self.source, parse_scan(program) if isinstance(program, str) else program)

    def read(self, program: Program | str = "") -> list[str]:
        return texts(self.open(program))


def batches(cursor: TaskCursor, limit: int = 65_536) -> list[pa.RecordBatch]:
    found = []
    while (code := cursor.next(Step(limit))) is Code.OK:
        batch = cursor.read()[1]
        assert isinstance(batch, pa.RecordBatch)
        found.append(batch)
    if cursor.fault is not None:
        raise cursor.fault
    assert code is Code.INVALID
    return found


def texts(cursor: TaskCursor, limit: int = 65_536) -> list[str]:
    """Rows such as `a=1`."""
    rows = [row for batch in batches(cursor, limit) for row in batch.to_pylist()]
    return [f"{row['key']}={row['data'].decode()}" for row in rows]


@pytest.fixture
def table(topics: Topics, admin: Admin) -> Table:
    return Table(topics, admin, 2, key="@key")


def test_scan_has_the_newest_record_of_each_key_in_the_order_of_keys(table: Table) -> None:
    table.write("b=1 a=2 é=3 gone=4 b=5 empty= gone", commit=True)
    table.write("z=6 é=7 B=8", 1, first_ts=NOW + 1_000)
    table.write("a=no z=no", commit=False)
    assert table.read() == ["B=8", "a=2", "b=5", "empty=", "z=6", "é=7"]
    rows = [row for batch in batches(table.open()) for row in batch.to_pylist()]
    log = {int(row["version"]): row["data"] for row in rows}
    placed = {
        at.offset + n: data
        for at in table.log.chunks(0, table.log.end, 1 << 20)
        for n, data in enumerate(at.chunk.data().to_pylist())
    }
    assert {version: placed[version] for version in log} == log
    assert [row["ts_ms"] for row in rows if row["key"] == "B"] == [NOW + 1_002]


def test_scan_is_frozen_at_the_ends_at_which_it_began(table: Table) -> None:
    table.write("a=1 b=2")
    table.write("c=3", 1)
    early = table.open()
    table.write("a=4 b d=5")
    late = table.open()
    assert texts(early) == ["a=1", "b=2", "c=3"]
    assert texts(late) == ["a=4", "c=3", "d=5"]
    assert early.pinned_version < late.pinned_version == table.log.end


def test_cursors_from_the_same_ends_read_the_topic_once(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    read = []
    whole = table.log.reader.read

    def counted(wanted: Any, *given: Any, **named: Any) -> Any:
        read.append(wanted.partition)
        return whole(wanted, *given, **named)

    monkeypatch.setattr(table.log.reader, "read", counted)
    table.write(" ".join(f"k{number:02}={number}" for number in range(50)))
    wanted = [f"k{number:02}={number}" for number in range(50)]
    cursor, other = table.open(), table.open()
    assert read == []
    assert texts(cursor, 7) == texts(other) == table.read() == wanted
    assert read == [0]  # the other partition is empty
    table.write("k00=new")
    assert table.read()[0] == "k00=new"
    assert read == [0, 0]


def test_snapshot_that_nobody_reads_is_freed(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    table.write("a=1")
    assert table.read() == ["a=1"]
    rows = table.log.rows()
    assert rows is not None and len(rows._kept) == 1
    table.log.maintain(0)
    assert len(rows._kept) == 1
    monkeypatch.setattr(newest_rows, "KEPT_SECONDS", 0.0)
    cursor = table.open()
    table.log.maintain(0)
    assert len(rows._kept) == 1
    cursor.close()
    table.log.maintain(0)
    assert rows._kept == []


def test_more_snapshots_than_fit_into_memory_are_refused(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(newest_rows, "MOST_SNAPSHOTS", 2)
    cursors = []
    for number in range(3):
        table.write(f"a={number}")
        cursors.append(table.open())
    for cursor in cursors[:2]:
        assert cursor.next(Step()) is Code.OK
    with pytest.raises(Rejected, match="2 snapshots of topic"):
        batches(cursors[2])
    for cursor in cursors:
        cursor.close()
    assert table.read() == ["a=2"]


def test_views_and_programs_are_those_of_a_table(topics: Topics, admin: Admin) -> None:
    table = Table(topics, admin, 1, key="@key", format="json")
    table.write(" ".join(f'k{number}={{"n":{number}}}' for number in range(5)))
    assert [each.partition("=")[0] for each in table.read(Program(KeyRange("k1", "k3")))] == ["k1", "k2"]
    assert table.read(Program(Point("k4"))) == ['k4={"n":4}']
    assert len(table.read(Program(Prefix("k")))) == 5 and table.read(Program(Prefix("x"))) == []
    assert len(table.read(Program(TimeRange(NOW + 1, NOW + 3)))) == 2
    (made,) = batches(table.open("select(.n > 2) | {key, n, double: .n * 2}"))
    assert made.to_pylist() == [{"key": "k3", "n": 3, "double": 6}, {"key": "k4", "n": 4, "double": 8}]
    (counted,) = batches(table.open("agg(n: count, most: max(.n))"))
    assert counted.to_pylist() == [{"n": 5, "most": 4}]


def test_scan_goes_on_behind_a_key(table: Table) -> None:
    table.write("a=1 b=2 c=3 d=4")
    cursor = table.open()
    assert cursor.next(Step(2)) is Code.OK
    assert cursor.next(Step(1, seek="d")) is Code.OK
    item = cursor.read()[1]
    assert isinstance(item, pa.RecordBatch) and item.column("key").to_pylist() == ["d"]
    assert cursor.next(Step()) is Code.INVALID and cursor.next(Step()) is Code.INVALID


def test_rows_have_no_changes_and_no_older_version(table: Table) -> None:
    table.write("a=1")
    with pytest.raises(ConfigError, match="live"):
        table.open(Program(mode=Mode.LIVE))
    with pytest.raises(ConfigError, match="newest version"):
        table.open(Program(Seq(0)))


def test_key_field_is_the_key_and_other_records_are_no_rows(topics: Topics, admin: Admin) -> None:
    table = Table(topics, admin, 1, key_field="k", format="json")
    lines = [b'{"k": "b", "n": 1}', b'{"k": "a", "n": 2}', b"broken", b"{}", b'{"k": "b", "n": 3}']
    produce(table.settings, table.config["topic"], [(line, None, []) for line in lines])
    found = [json.loads(row.partition("=")[2])["n"] for row in table.read()]
    assert found == [2, 3]


def test_keys_that_are_no_text_are_rows_of_their_own(table: Table) -> None:
    keys = [b"\xff", b"\xfe", b"", "é".encode()]
    produce(table.settings, table.config["topic"], [(b"%d" % at, key, []) for at, key in enumerate(keys)])
    assert table.read() == ["=2", "\\xfe=1", "\\xff=0", "é=3"]


def test_snapshot_beyond_its_limit_is_refused_with_the_setting(topics: Topics, admin: Admin) -> None:
    table = Table(topics, admin, 2, key="@key", snapshot_bytes="1MiB")
    value = "x" * 100_000
    for _ in range(3):  # newer records of the same keys take no more
        table.write(" ".join(f"k{number}={value}" for number in range(6)))
    assert len(table.read()) == 6
    table.write(" ".join(f"o{number}={value}" for number in range(6)), 1)
    with pytest.raises(Rejected, match=r"more than 1\.0 MiB, its snapshot_bytes") as refused:
        table.read()
    assert "set snapshot_bytes to more" in refused.value.hint


def test_topic_without_a_key_has_no_rows(topics: Topics) -> None:
    assert topics.open().rows() is None


def test_snapshot_of_a_topic_that_was_made_anew_is_that_of_the_new_one(table: Table, admin: Admin) -> None:
    table.write("a=1 b=2")
    old = table.open()
    admin.delete(table.config["topic"])
    admin.create(table.config["topic"], 1)
    table.write("c=3")
    inc = table.log.inc

    def is_anew() -> bool:
        table.log.look_back()
        return table.log.inc != inc

    wait_until(is_anew, what="the new incarnation")
    with pytest.raises(GaussError, match="made anew"):
        texts(old)
    assert texts(TaskCursor(SourceTask("t", table.source.provider, rows=True), Program())) == ["c=3"]
