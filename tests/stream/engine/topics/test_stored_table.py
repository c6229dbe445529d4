"""Tables in real servers as sources of scans: the same tests for ClickHouse and Postgres."""

from __future__ import annotations

import datetime
import threading
import time
import uuid
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from gauss import registry
from gauss.clients.embedded import ensure
from gauss.contracts.cursor import Code, Program, Step, TimeRange
from gauss.contracts.format import FieldType, SourceField, SourceSchema
from gauss.contracts.storage import StorageSpec
from gauss.contracts.table import RowBlock, RowGroup, TablePlace, TableSpec
from gauss.contracts.table_read import Pages, TableColumn, TableReadRequest
from gauss.model.errors import ConfigError, GaussError, Unavailable
from gauss.scan.program.parse import parse_scan
from gauss.scan.tasks import TaskCursor
from gauss.stream.engine.topics.stored_table import StoredTable
from gauss.stream.engine.topics.stored_table_cursor import StoredCursor
from gauss.tables.mapped_table import load_attribute

SYSTEMS = ("clickhouse", "postgres")
INC = 7
WHOLE = Step(1 << 16)
NUMBERS = SourceSchema((SourceField("n", FieldType("int64")), SourceField("s", FieldType("string"))))


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Path]]:
    places = {system: tmp_path_factory.mktemp(system) for system in SYSTEMS}
    with ensure("clickhouse", places["clickhouse"]), ensure("postgres", places["postgres"]):
        yield places


@pytest.fixture(params=SYSTEMS)
def system(request: pytest.FixtureRequest) -> str:
    return str(request.param)


class Made:
    """A new table in one of the servers, and its source of scans."""

    def __init__(self, system: str, directory: Path, source: SourceSchema = NUMBERS, **config: Any) -> None:
        spec = registry.spec(StorageSpec, system)
        assert isinstance(spec, TableSpec)
        config.setdefault("schema", {})
        config["schema"] = {"table": f"t{uuid.uuid4().hex[:12]}", **config["schema"]}
        checked = spec.validate({"format": "json", **config})
        place = TablePlace("numbers", directory)
        self.store = load_attribute(spec.writer)(checked, place)
        self.target = self.store.target(source, None)
        self.reader = load_attribute(spec.reader)(checked, place, source, self.target)
        self.committed = {INC: 1 << 40}
        self.topic = StoredTable("numbers", INC, lambda: self.reader, committed=lambda: self.committed)

    def prepare(self) -> Made:
        self.store.open(self.target, self.store.prepare(self.target))
        return self

    def insert(self, columns: dict[str, Any], offsets: list[int] | np.ndarray | None = None, inc: int = INC) -> None:
        rows = pa.table(columns)
        places = np.arange(len(rows)) if offsets is None else np.asarray(offsets)
        group = RowGroup(places, rows)
        stop = int(places[-1]) + 1
        self.store.insert(
            RowBlock(f"_table.{self.target.attrs['table']}", 1, 0, inc, int(places[0]), stop, (group,)), 0.0
        )

    def numbers(self, start: int, stop: int, inc: int = INC) -> None:
        n = np.arange(start, stop)
        self.insert({"ts_ms": pa.array(n + 1000), "n": pa.array(n), "s": pa.array([f"s{i % 10}" for i in n])}, n, inc)

    def scan(self, program: str | Program, step: Step = WHOLE) -> list[dict[str, Any]]:
        asked = parse_scan(program) if isinstance(program, str) else program
        cursor = TaskCursor(self.topic.source, asked)
        try:
            return [row for batch in batches(cursor, step) for row in batch.to_pylist()]
        finally:
            cursor.close()

    def sql(self, program: str) -> str:
        opened = self.topic.source.open(parse_scan(program))
        assert opened.fault is None, opened.fault
        try:
            cursor: Any = self.topic.source.executor(opened.cursor_id).cursor
            return str(cursor.sql)
        finally:
            self.topic.source.close(opened.cursor_id)


def batches(cursor: Any, step: Step) -> Iterator[pa.RecordBatch]:
    while (code := cursor.next(step)) is Code.OK:
        yield cursor.read()[1]
    if code is not Code.INVALID:
        raise AssertionError(code) from cursor._executor.fault


@pytest.fixture
def made(system: str, servers: dict[str, Path]) -> Iterator[Made]:
    found = Made(system, servers[system]).prepare()
    yield found
    found.store.close()


def test_snapshot_gives_every_row_in_the_order_of_its_record_whatever_the_steps(made: Made) -> None:
    made.numbers(0, 5_000)
    made.numbers(5_000, 6_000)
    rows = made.scan("")
    assert [row["n"] for row in rows] == list(range(6_000))
    assert rows[11] == {"ts_ms": 1011, "n": 11, "s": "s1", "_inc": INC, "_offset": 11}
    assert made.scan("", Step(700, 1 << 20)) == rows


def test_query_gives_the_half_open_range_of_the_records_time(made: Made) -> None:
    made.numbers(0, 100)
    assert [row["n"] for row in made.scan(Program(TimeRange(1010, 1015)))] == [10, 11, 12, 13, 14]
    assert [row["n"] for row in made.scan(Program(TimeRange(1098)))] == [98, 99]
    assert made.scan(Program(TimeRange(1010, 1010))) == []
    with pytest.raises(ConfigError, match="from ≤ to"):
        made.scan(Program(TimeRange(5, 1)))


@pytest.mark.parametrize(
    ("program", "wanted", "pushed"),
    [
        ("select(.n >= 95) | {n}", [{"n": n} for n in range(95, 100)], ">= "),
        ('select(.s == "s3" and .n < 20) | .n', [{"value": 3}, {"value": 13}], " AND "),
        ("select(10 > .n and .n > 7) | {n}", [{"n": 8}, {"n": 9}], "<"),
        ('select((.s | startswith("s9")) and .n > 90) | {s}', [{"s": "s9"}], "rts"),
        ('select((.s | endswith("9")) or .n == 1) | select(.n < 10) | {n}', [{"n": 1}, {"n": 9}], " OR "),
        ("select(.s != null and .n == 5) | {m: .n * 2}", [{"m": 10.0}], "IS NOT NULL"),
        ("select(.n * 2 == 10) | {n}", [{"n": 5}], ""),
        ("select(.n == 5.5) | {n}", [], ""),
        ("agg(n: count, high: max(.n))", [{"n": 100, "high": 99}], ""),
        ("{one: 1} | select(.one == 2)", [], ""),
    ],
)
def test_programs_run_partly_in_the_table_with_the_same_answer(
    made: Made, program: str, wanted: list[Any], pushed: str
) -> None:
    made.numbers(0, 100)
    assert made.scan(program) == wanted
    if not program.startswith("agg"):
        sql = made.sql(program)
        assert pushed in sql, sql
        assert "s" in program.replace("select", "") or ' "s"' not in sql.replace("`", '"'), sql


def test_values_of_a_program_are_no_sql(made: Made) -> None:
    made.insert(
        {"ts_ms": pa.array([1, 2]), "n": pa.array([1, 2]), "s": pa.array(["'; DROP TABLE x; --", "%s {p0:Int8}"])}
    )
    assert [row["n"] for row in made.scan('select(.s == "\'; DROP TABLE x; --")')] == [1]
    assert [row["n"] for row in made.scan('select(.s == "%s {p0:Int8}")')] == [2]
    assert len(made.scan("")) == 2


def test_a_snapshot_in_pages_does_not_see_what_comes_meanwhile(made: Made) -> None:
    made.numbers(0, 3_000)
    cursor = TaskCursor(made.topic.source, Program())
    assert cursor.next(Step(10)) is Code.OK
    made.numbers(3_000, 4_000)
    rest = sum(batch.num_rows for batch in batches(cursor, Step(500)))
    cursor.close()
    assert rest == 2_990
    assert len(made.scan("")) == 4_000


def test_rows_of_an_unfinished_epoch_are_not_in_a_snapshot_of_clickhouse(servers: dict[str, Path]) -> None:
    made = Made("clickhouse", servers["clickhouse"]).prepare()
    made.committed = {INC: 100}
    made.numbers(0, 100)
    made.numbers(200, 300)
    assert [row["n"] for row in made.scan("{n}")] == list(range(100))
    made.committed = {INC: 300}
    assert len(made.scan("")) == 200
    made.committed = {INC: 50}  # the reader is moved back, to read the inbox again
    assert len(made.scan("")) == 200


def test_a_record_of_many_rows_is_not_cut_by_a_page(made: Made) -> None:
    offsets = np.repeat(np.arange(300), 10)
    n = np.arange(3_000)
    made.insert({"ts_ms": pa.array(n), "n": pa.array(n), "s": pa.array(["x"] * 3_000)}, offsets)
    assert sorted(row["n"] for row in made.scan("{n}")) == n.tolist()


def test_keyed_rows_come_once_in_their_newest_form(system: str, servers: dict[str, Path]) -> None:
    config = {"schema": {"engine": "ReplacingMergeTree", "order_by": "n"}} if system == "clickhouse" else {"key": "n"}
    made = Made(system, servers[system], **config)
    made.prepare()
    for turn in range(3):
        n = np.arange(50)
        columns = {"ts_ms": pa.array(n + turn), "n": pa.array(n), "s": pa.array([f"turn {turn}"] * 50)}
        made.insert(columns, n + 50 * turn)
    rows = made.scan("{n, s}")
    assert rows == [{"n": n, "s": "turn 2"} for n in range(50)]
    assert made.reader.key == ("n",)
    if system == "clickhouse":
        assert " FINAL" in made.sql("{n}")


def test_every_type_comes_back_as_it_went_in(system: str, servers: dict[str, Path]) -> None:
    kinds: dict[str, tuple[FieldType, Any]] = {
        "i": (FieldType("int32"), pa.array([1, None, -3], pa.int32())),
        "u": (FieldType("uint64"), pa.array([Decimal(2**64 - 1), None, Decimal(0)], pa.decimal128(20, 0))),
        "f": (FieldType("double"), pa.array([0.1, None, 1e300])),
        "b": (FieldType("bool"), pa.array([True, None, False])),
        "d": (FieldType("decimal", {"precision": 20, "scale": 4}),
              pa.array([Decimal("1234567890123456.7891"), None, Decimal("-0.0001")], pa.decimal128(20, 4))),
        "s": (FieldType("string"), pa.array(['a "b",\n\\c', None, ""])),
        "raw": (FieldType("bytes"), pa.array([b"\xff\x00\n", None, b""])),
        "t": (FieldType("timestamp", {"precision": 6}),
              pa.array([datetime.datetime(2026, 1, 31, 12, 0, 0, 123456, datetime.UTC), None,
                        datetime.datetime(1969, 12, 31, 23, 59, 59, 5, datetime.UTC)], pa.timestamp("us", tz="UTC"))),
        "day": (FieldType("date"), pa.array([datetime.date(2026, 2, 1), None, datetime.date(1969, 1, 1)])),
        "list": (FieldType("array", {"element": "int64"}), pa.array([[1, 2], [], [3]], pa.list_(pa.int64()))),
        "words": (FieldType("array", {"element": "string"}), pa.array([["a,b", '"'], [], ["x"]])),
    }  # fmt: skip
    source = SourceSchema(tuple(SourceField(name, kind) for name, (kind, _) in kinds.items()))
    made = Made(system, servers[system], source).prepare()
    made.insert({"ts_ms": pa.array([1, 2, 3]), **{name: values for name, (_, values) in kinds.items()}})
    rows = made.scan("")
    for name, (_, values) in kinds.items():
        found = [row[name] for row in rows]
        assert found == values.to_pylist(), (name, found)


def test_hostile_names_are_columns_like_any_other(system: str, servers: dict[str, Path]) -> None:
    names = ['a "quoted" `one`', "select", "_gauss_0", "ünïcode", "{p0:Int64}", "a\\b", "%s"]
    source = SourceSchema(tuple(SourceField(name, FieldType("int64")) for name in names))
    made = Made(system, servers[system], source)
    fields = list(made.target.fields)
    columns = {field.name: field.source for field in fields}
    made.prepare()
    made.insert(
        {
            "ts_ms": pa.array([5]),
            **{name: pa.array([1]) for name in columns if name not in ("ts_ms", "_inc", "_offset")},
        }
    )
    [row] = made.scan("select(.select == 1)")
    assert row["ts_ms"] == 5
    assert set(row) == set(columns)


def test_a_table_that_is_not_there_yet_holds_nothing(system: str, servers: dict[str, Path]) -> None:
    made = Made(system, servers[system])
    assert made.scan("") == []
    assert made.scan("agg(n: count)") == [{"n": 0}]


def test_a_column_that_the_live_table_lacks_is_null(system: str, servers: dict[str, Path]) -> None:
    made = Made(system, servers[system]).prepare()
    made.numbers(0, 3)
    wider = SourceSchema((*NUMBERS.fields, SourceField("new", FieldType("double"))))
    again = Made(system, servers[system], wider, schema={"table": made.target.attrs["table"]})
    assert [(row["n"], row["new"]) for row in again.scan("select(.n >= 1)")] == [(1, None), (2, None)]


def test_a_live_scan_and_views_of_keys_are_refused_with_what_to_do(made: Made) -> None:
    with pytest.raises(GaussError, match="live"):
        TaskCursor(made.topic.source, parse_scan("", live=True))
    with pytest.raises(GaussError):
        made.scan('prefix("a")')


def test_a_server_that_is_away_is_said_at_once(system: str, tmp_path: Path) -> None:
    made = Made(system, tmp_path / "nowhere")
    with pytest.raises(Unavailable, match="not up"):
        made.scan("")
    away = Made(system, tmp_path, host="127.0.0.1", port=1)
    with pytest.raises(Unavailable, match=r"refused|does not answer"):
        away.scan("")


class Stuck:
    """Pages that do not arrive until they are closed."""

    sql = order = ""

    def __init__(self) -> None:
        self.cancelled = threading.Event()

    def next(self) -> pa.RecordBatch | None:
        self.cancelled.wait(30)
        return None

    def cancel(self) -> None:
        self.cancelled.set()

    def close(self) -> None:
        self.closed = True


class StuckReader:
    columns: tuple[TableColumn, ...] = ()
    key: tuple[str, ...] = ()
    time = ""

    def __init__(self) -> None:
        self.attrs: dict[str, Any] = {}
        self.pages = Stuck()

    def open(self, asked: TableReadRequest) -> Pages:  # noqa: ARG002
        return self.pages

    def rows(self) -> int:
        return 0


def test_a_slow_server_has_a_time_limit_and_closing_waits_for_nobody() -> None:
    reader = StuckReader()
    cursor = StoredCursor("t", reader, TableReadRequest(()), version=0, wait_seconds=0.2)
    with pytest.raises(Unavailable, match="has not answered"):
        cursor.next(Step())
    began = time.monotonic()
    cursor.close()
    assert time.monotonic() - began < 20  # its page takes 30 s
    assert reader.pages.cancelled.wait(60)
    assert cursor.next(Step()) is Code.INVALID


def test_the_table_tells_a_schema_map_where_rows_come_from(system: str, servers: dict[str, Path]) -> None:
    made = Made(system, servers[system])
    types = {column.name: column.field_type.name for column in made.reader.columns}
    if system == "clickhouse":
        assert made.reader.attrs["engine"] == "MergeTree"
        assert made.reader.attrs["order_by"] == ["ts_ms"]
        assert types == {"ts_ms": "Int64", "n": "Nullable", "s": "Nullable", "_inc": "Int64", "_offset": "Int64"}
    else:
        assert made.reader.attrs["schema"] == "public"
        assert types == {"ts_ms": "int8", "n": "int8", "s": "text", "_inc": "int8", "_offset": "int8"}
