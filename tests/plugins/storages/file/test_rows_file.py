"""File topics with a format and `file_format = "arrow_ipc_file"`: tables for other readers, the original bytes for
Gauss."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import polars as pl
import pyarrow as pa

from gauss import registry
from gauss.contracts.format import Format, FormatSpec
from gauss.contracts.format_batch import batched
from gauss.contracts.storage import Log, StorageContext, StorageSpec
from helpers.logs import arrow, framing, put, records

FIELDS = [{"name": "symbol", "type": "string"}, {"name": "price", "type": "float64"}]
CONFIG = {"file_format": "arrow_ipc_file", "format": "quotes"}


def built(plugin: str, config: dict[str, Any]) -> Format:
    spec = registry.spec(FormatSpec, plugin)
    return batched(registry.build(spec, spec.validate(config)))


def opened(folder: Path, made: Format, config: dict[str, Any] | None = None) -> Log:
    spec = registry.spec(StorageSpec, "file")
    context = StorageContext(
        "t", folder / "topic", folder, lambda stored: stored or 7, lambda _: True, framing, lambda _: made
    )
    return cast(Log, registry.build(spec, spec.validate({**CONFIG, **(config or {})}), context))


def table(folder: Path) -> pl.DataFrame:
    return pl.concat([pl.read_ipc(path) for path in sorted(folder.rglob("*.arrow"))])


def quote(number: int) -> bytes:
    # Not in the form that an encoder writes: reading must return these bytes.
    return b'{ "price":%d.50,  "symbol" : "S%d" }' % (number, number)


def test_a_stop_leaves_a_table_and_every_record_keeps_its_bytes(tmp_path: Path) -> None:
    made = built("json", {"fields": FIELDS})
    log = opened(tmp_path, made)
    put(log, arrow(*(quote(number) for number in range(5)), ts_ms=[10, 11, 12, 13, 14]))
    put(log, arrow(quote(5), b"no json", quote(7), ts_ms=20))
    whole = records(log)
    log.close()
    found = table(tmp_path)
    assert found.columns == ["offset", "ts_ms", "symbol", "price", "data"]
    assert found["offset"].to_list() == list(range(8))
    assert found["ts_ms"].to_list() == [10, 11, 12, 13, 14, 20, 20, 20]
    assert found["symbol"].to_list() == ["S0", "S1", "S2", "S3", "S4", "S5", None, "S7"]
    assert found["price"].to_list() == [0.5, 1.5, 2.5, 3.5, 4.5, 5.5, None, 7.5]
    assert found["data"].to_list() == [None] * 6 + [b"no json", None]
    again = opened(tmp_path, made)
    assert records(again) == whole
    assert next(data for _, _, data in records(again)) == quote(0)
    again.close()


def test_each_stop_adds_a_file_and_none_is_written_twice(tmp_path: Path) -> None:
    made = built("json", {"fields": FIELDS})
    for number in range(3):
        log = opened(tmp_path, made)
        put(log, arrow(quote(number)))
        log.close()
        opened(tmp_path, made).close()  # no records, no file
    paths = sorted(tmp_path.rglob("*.arrow"))
    assert len(paths) == 3
    assert table(tmp_path)["offset"].to_list() == [0, 1, 2]


def test_files_appear_while_the_topic_is_written(tmp_path: Path) -> None:
    log = opened(tmp_path, built("json", {"fields": FIELDS}), {"roll_rows": 2})
    for number in range(0, 6, 2):
        put(log, arrow(quote(number), quote(number + 1)))
    for _ in range(3):
        log.maintain(0)
    assert table(tmp_path)["offset"].to_list() == [0, 1, 2, 3]
    assert len(records(log)) == 6
    log.close()


def test_a_field_named_as_a_column_of_ours_keeps_its_name(tmp_path: Path) -> None:
    fields = [{"name": name, "type": "int64"} for name in ("ts_ms", "offset", "data")]
    log = opened(tmp_path, built("json", {"fields": fields}))
    put(log, arrow(json.dumps({"ts_ms": 1, "offset": 2, "data": 3}).encode(), ts_ms=99))
    log.close()
    assert table(tmp_path).to_dicts() == [
        {"_offset": 0, "_ts_ms": 99, "ts_ms": 1, "offset": 2, "data": 3, "_data": None}
    ]


def test_a_record_of_several_rows_stands_there_once_for_each(tmp_path: Path) -> None:
    schema = pa.schema([("symbol", pa.string()), ("price", pa.float64())])
    (tmp_path / "quotes.arrow").write_bytes(schema.serialize().to_pybytes())
    made = built("arrow", {"schema_file": str(tmp_path / "quotes.arrow")})
    batch = pa.record_batch([["A", "B"], [1.0, 2.0]], schema=schema)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        writer.write_batch(batch)
    record = sink.getvalue().to_pybytes()
    (tmp_path / "quotes.arrow").unlink()
    log = opened(tmp_path, made)
    put(log, arrow(record, record))
    log.close()
    (path,) = tmp_path.rglob("*.arrow")
    found = pa.ipc.open_file(path).read_all()
    assert found.column("offset").to_pylist() == [0, 0, 1, 1]
    assert found.column("symbol").to_pylist() == ["A", "B", "A", "B"]
    again = opened(tmp_path, made)
    assert [data for _, _, data in records(again)] == [record, record]
    again.close()


def test_a_format_without_a_schema_keeps_bytes_in_the_file(tmp_path: Path) -> None:
    made = built("json", {})
    log = opened(tmp_path, made)
    put(log, arrow(b'{"a": 1}'))
    log.close()
    assert table(tmp_path).to_dicts() == [{"offset": 0, "ts_ms": 1, "data": b'{"a": 1}'}]
    again = opened(tmp_path, made)
    assert len(records(again)) == 1
    again.close()


def test_retention_removes_the_table_with_its_segment(tmp_path: Path) -> None:
    made = built("json", {"fields": FIELDS})
    log = opened(tmp_path, made)
    put(log, arrow(quote(1), ts_ms=1))
    log.close()
    again = opened(tmp_path, made, {"retention": "1 s"})
    again.maintain(again.end, now_ms=5000)
    assert not list(tmp_path.rglob("*.arrow"))
    again.close()


def test_what_a_crash_left_of_a_table_is_written_again(tmp_path: Path) -> None:
    made = built("json", {"fields": FIELDS})
    log = opened(tmp_path, made)
    put(log, arrow(quote(1)))
    log.close()
    (path,) = tmp_path.rglob("*.arrow")
    path.rename(path.with_name(path.name + ".new"))
    again = opened(tmp_path, made)
    again.close()
    assert table(tmp_path)["symbol"].to_list() == ["S1"]
    assert not list(tmp_path.rglob("*.new"))
