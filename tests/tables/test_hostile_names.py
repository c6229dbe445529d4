"""Hostile names and values, and every way to fill a column: from JSON to rows in both real servers."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from gauss import registry
from gauss.clients.clickhouse.connect import connect
from gauss.clients.clickhouse.quote import identifier as backticked
from gauss.clients.embedded import ensure
from gauss.clients.endpoint import read_endpoint
from gauss.clients.postgres.connect import connect as connect_postgres
from gauss.clients.postgres.quote import identifier as quoted
from gauss.contracts.format import FormatSpec
from gauss.contracts.storage import StorageSpec
from gauss.contracts.table import RowBlock, TablePlace
from gauss.model.batch import record_batch
from gauss.model.errors import ConfigError
from gauss.model.paths import DataDir
from gauss.tables.insert import Waits, insert_block
from gauss.tables.mapped_table import map_table
from gauss.tables.rows import Refusal, RowMapper

pytestmark = pytest.mark.system

SYSTEMS = ["postgres", "clickhouse"]
NAMES = [
    'say "hi"',
    "a`b``c",
    "it's; DROP TABLE x; --",
    "select",
    "from",
    "таблица 表 🚀",
    "tab\tnew\nline",
    "\\",
    "%s {x}",
]
LONG = "x" * 300
VALUES = [
    "plain",
    'quo"te',
    "it's",
    "back\\slash\\n",
    "nul\0byte",
    "line\nfeed\r\ttab",
    "\\N",
    "NULL",
    "",
    "表🚀",
    "{};--",
]
INT, TEXT = {"postgres": "BIGINT", "clickhouse": "Int64"}, {"postgres": "TEXT", "clickhouse": "String"}


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DataDir]:
    found = DataDir(tmp_path_factory.mktemp("data"))
    with ensure("postgres", found.server("postgres")), ensure("clickhouse", found.server("clickhouse")):
        yield found


class Filled:
    """A new table topic, created and opened."""

    def __init__(
        self, data_dir: DataDir, system: str, table: str, fields: dict[str, str], columns: list[dict[str, Any]],
        **config: Any,
    ) -> None:  # fmt: skip
        self.data_dir, self.system, self.table = data_dir, system, table
        script = data_dir.root / f"{uuid.uuid4().hex}.star"
        made = f"    target['fields'] = {json.dumps(columns, ensure_ascii=False)}\n".replace(": true", ": True")
        script.write_text(f"def map_schema(source, target):\n{made}    return target\n")
        given = [{"name": name, "type": kind} for name, kind in fields.items()]
        json_spec, spec = registry.spec(FormatSpec, "json"), registry.spec(StorageSpec, system)
        format_ = registry.build(json_spec, json_spec.validate({"fields": given}))
        settings: Any = spec.validate({"schema": {"table": table}, **config})
        place = TablePlace("t", data_dir.server(system))
        self.topic = map_table(spec, settings, place, format_, script)  # type: ignore[arg-type]
        lacking = self.topic.store.prepare(self.topic.target)
        self.topic.store.open(self.topic.target, lacking)
        self._mapper = RowMapper(self.topic, lacking)

    def put(self, *rows: dict[str, Any], start: int = 0, again: bool = False) -> list[Refusal]:
        records = pa.array([json.dumps(row).encode() for row in rows], pa.binary())
        mapped = self._mapper.rows(pa.Table.from_batches([record_batch(start, 1_000, records)]))
        assert mapped is not None
        block = RowBlock(f"p{self.table}", 1, 0, 7, start, start + len(rows), mapped.groups, unclear=again)
        return [*mapped.refusals, *insert_block(self.topic.store, block, Waits(0.1))]

    def ask(self, *columns: str) -> list[Any]:
        quote = backticked if self.system == "clickhouse" else quoted
        chosen = ", ".join(map(quote, columns))
        query = f"SELECT {chosen} FROM {quote(self.table)} ORDER BY _offset"
        endpoint = read_endpoint(self.data_dir.server(self.system))
        assert endpoint is not None
        if self.system == "clickhouse":
            with connect(endpoint) as client:
                return [tuple(row) for row in client.query(query).result_rows]
        with connect_postgres(endpoint) as connection:
            return connection.execute(query.encode()).fetchall()


def column(name: str, kind: str, source: str | None = None, **props: Any) -> dict[str, Any]:
    made: dict[str, Any] = {"name": name, "field_type": {"name": kind, "attrs": {}}, "props": props}
    return made if source is None else {**made, "source": source}


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("table", ["select", "".join(NAMES[:3]), "".join(NAMES[5:8])])
def test_a_table_of_hostile_names_takes_rows_grows_and_tells_its_columns_apart(
    data_dir: DataDir, system: str, table: str
) -> None:
    fields = {f"f{at}": "int64" for at in range(len(NAMES))}
    columns = [column(name, INT[system], f"f{at}") for at, name in enumerate(NAMES)]
    row = {f"f{at}": at for at in range(len(NAMES))}
    narrow = Filled(data_dir, system, table, fields, columns[:-1])
    assert narrow.put(row, row) == []
    wide = Filled(data_dir, system, table, fields, columns)
    assert wide.topic.store.differences(wide.topic.target) == []
    assert wide.put(row, start=2) == []
    assert wide.put(row, start=2, again=True) == []  # the attack text is stored as data
    last = 0 if system == "clickhouse" else None
    expected = tuple(range(len(NAMES) - 1))
    assert wide.ask(*NAMES) == [(*expected, last), (*expected, last), (*expected, len(NAMES) - 1)]
    if system == "postgres":
        row["f0"] = 1 << 70
        assert [(each.offset, each.stage) for each in wide.put(row, start=3)] == [(3, "decode")]


@pytest.mark.parametrize("system", SYSTEMS)
def test_any_text_arrives_as_it_was_sent_or_is_refused_alone(data_dir: DataDir, system: str) -> None:
    made = Filled(data_dir, system, "values of any kind", {"$.t": "string"}, [column("t", TEXT[system], "$.t")])
    refused = made.put(*({"t": value} for value in VALUES))
    # Postgres text cannot contain NUL.
    missing = [VALUES.index("nul\0byte")] if system == "postgres" else []
    assert [each.offset for each in refused] == missing
    assert made.ask("t", "_offset") == [(value, at) for at, value in enumerate(VALUES) if at not in missing]


def test_a_name_of_300_characters_is_kept_by_clickhouse_and_refused_for_postgres(data_dir: DataDir) -> None:
    long = Filled(data_dir, "clickhouse", "long", {"f": "int64"}, [column(LONG, "Int64", "f")])
    assert long.put({"f": 1}) == []
    assert long.ask(LONG) == [(1,)]
    for table, name in (("long", LONG), (LONG, "n")):
        with pytest.raises(ConfigError, match="1 to 63 bytes"):
            Filled(data_dir, "postgres", table, {"f": "int64"}, [column(name, "BIGINT", "f")])
    with pytest.raises(ConfigError, match="206 bytes"):
        Filled(data_dir, "clickhouse", LONG, {"f": "int64"}, [column("n", "Int64", "f")])


def test_a_table_that_the_embedded_clickhouse_would_take_for_files_is_refused(data_dir: DataDir) -> None:
    with pytest.raises(ConfigError, match="as a file pattern"):
        Filled(data_dir, "clickhouse", "data{1,2}", {"f": "int64"}, [column("n", "Int64", "f")])


def test_rows_replace_each_other_by_a_key_of_a_hostile_name(data_dir: DataDir) -> None:
    key, value = NAMES[0], NAMES[2]
    columns = [column(key, "BIGINT", "k"), column(value, "TEXT", "v")]
    made = Filled(data_dir, "postgres", "by key", {"k": "int64", "v": "string"}, columns, key=key)
    assert made.put({"k": 1, "v": "a"}, {"k": 2, "v": "b"}, {"k": 1, "v": "c"}) == []
    assert made.put({"k": 2, "v": "d"}, start=3) == []
    assert made.ask(key, value) == [(1, "c"), (2, "d")]


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_column_gets_its_value_in_each_of_the_four_ways(data_dir: DataDir, system: str) -> None:
    number = {"postgres": "DOUBLE PRECISION", "clickhouse": "Float64"}[system]
    computed = {"postgres": "generated", "clickhouse": "materialized"}[system]
    moment = {"postgres": ("TIMESTAMPTZ", "now()"), "clickhouse": ("DateTime64", "now64(3)")}[system]
    columns = [
        column("ts_ms", INT[system], "ts_ms"),
        column("bid", number, "bid"),
        column("ask", number, "ask"),
        column("wrt_ts", moment[0], default=moment[1]),
        column("spread", number, **{computed: "ask - bid"}),
        column("region", TEXT[system], "region", default="'unknown'"),
    ]
    fields = {"bid": "double", "ask": "double", "region": "string"}
    made = Filled(data_dir, system, "four ways", fields, columns)
    given: list[dict[str, Any]] = [
        {"bid": 1, "ask": 3, "region": "eu"},
        {"bid": 1, "ask": 2},
        {"bid": 1, "ask": 1, "region": None},
    ]
    assert made.put(*given) == []
    assert made.ask("ts_ms", "bid", "ask", "spread", "region") == [
        (1_000, 1.0, 3.0, 2.0, "eu"),
        (1_000, 1.0, 2.0, 1.0, "unknown"),
        (1_000, 1.0, 1.0, 0.0, "unknown"),
    ]
    assert all(at.year > 2000 for (at,) in made.ask("wrt_ts"))
