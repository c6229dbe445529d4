"""The JSON form of every protocol type, compared with files that connectors in other languages rely on.

After a deliberate change: `GAUSS_WRITE_GOLDEN=1 pytest tests/contracts/connector/test_json_form.py`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gauss.contracts.connector.cursor import (
    CursorInfo,
    CursorType,
    CursorValue,
    DecimalCursor,
    Int64Cursor,
    JsonCursor,
    NullCursor,
    TimestampMicrosCursor,
    TimestampMillisCursor,
    Utf8Cursor,
)
from gauss.contracts.connector.json_form import decode, encode
from gauss.contracts.connector.lifecycle import (
    Catalog,
    CatalogStream,
    Feature,
    JsonConfig,
    OpenContext,
    OpenInfo,
    ValidationResult,
    ValidationStatus,
)
from gauss.contracts.connector.progress import (
    Checkpoint,
    CheckpointEnvelope,
    CheckpointKind,
    Counter,
    Gauge,
    Histogram,
    Metric,
    MetricEnvelope,
    MetricValue,
    ReadSummary,
    WritePerf,
    WriteSummary,
)
from gauss.contracts.connector.stream import (
    Append,
    ArrowIpcSchema,
    Columns,
    ColumnSchema,
    DataErrorPolicy,
    Replace,
    SchemaHint,
    StreamContext,
    StreamLimits,
    StreamPolicies,
    SyncMode,
    Upsert,
    WriteMode,
)

GOLDEN = Path(__file__).parents[2] / "golden" / "connector"
ID = ColumnSchema("id", "Int64", False)
STREAM = StreamContext(
    "public.users",
    Columns([ID, ColumnSchema("name", "Utf8")]),
    SyncMode.INCREMENTAL,
    CursorInfo("id", CursorType.INT64, Int64Cursor(5)),
    StreamLimits(1_000, 500, 4, 2),
    StreamPolicies(DataErrorPolicy.DLQ),
    Upsert(["id"]),
)
CHECKPOINT = Checkpoint(42, CheckpointKind.SOURCE, "users", "id", Int64Cursor(7), 100, 2_000)

CASES: dict[str, tuple[Any, type]] = {
    "open_context": (OpenContext(JsonConfig({"host": "h"}), "source-postgres", "1.2"), OpenContext),
    "open_info": (OpenInfo(features=list(Feature), default_max_batch_bytes=1_000), OpenInfo),
    "stream_context": (STREAM, StreamContext),
    "stream_context_least": (StreamContext("s", Columns([]), SyncMode.FULL_REFRESH), StreamContext),
    "schema_columns": (Columns([ID]), SchemaHint),
    "schema_arrow_ipc": (ArrowIpcSchema(b"\x00\xff"), SchemaHint),
    "write_append": (Append(), WriteMode),
    "write_replace": (Replace(), WriteMode),
    "write_upsert": (Upsert(["a", "b"]), WriteMode),
    "cursor_null": (NullCursor(), CursorValue),
    "cursor_int64": (Int64Cursor(-(2**63)), CursorValue),
    "cursor_utf8": (Utf8Cursor("ü"), CursorValue),
    "cursor_timestamp_millis": (TimestampMillisCursor(1), CursorValue),
    "cursor_timestamp_micros": (TimestampMicrosCursor(2), CursorValue),
    "cursor_decimal": (DecimalCursor("1.50", 2), CursorValue),
    "cursor_json": (JsonCursor({"lsn": "0/1", "n": [1, None]}), CursorValue),
    "checkpoint": (
        CheckpointEnvelope(connector_id="source-postgres", stream_name="users", checkpoint=CHECKPOINT),
        CheckpointEnvelope,
    ),
    "metric": (
        MetricEnvelope(connector_id="c", stream_name="s", metric=Metric("rows", Counter(5), [("k", "v")])),
        MetricEnvelope,
    ),
    "metric_gauge": (Gauge(1.5), MetricValue),
    "metric_histogram": (Histogram(0.25), MetricValue),
    "read_summary": (ReadSummary(1, 2, 3, 4), ReadSummary),
    "write_summary": (WriteSummary(1, 2, 3, 4, WritePerf(0.5, 1.5, 2.5)), WriteSummary),
    "write_summary_least": (WriteSummary(), WriteSummary),
    "validation": (ValidationResult(ValidationStatus.FAILED, "no"), ValidationResult),
    "catalog": (
        Catalog(
            [
                CatalogStream("s", [ID], [SyncMode.FULL_REFRESH, SyncMode.CDC]),
                CatalogStream("t", [ID], [SyncMode.INCREMENTAL], ["id"], ["id", "at"], 10),
            ]
        ),
        Catalog,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_json_form_equals_the_golden_file_and_decodes_to_the_same_value(name: str) -> None:
    value, kind = CASES[name]
    text = msgspec.json.format(encode(value), indent=2) + b"\n"
    file = GOLDEN / f"{name}.json"
    if os.environ.get("GAUSS_WRITE_GOLDEN"):
        file.write_bytes(text)
    assert text == file.read_bytes()
    assert decode(text, kind) == value


def test_every_golden_file_has_a_case() -> None:
    assert {file.stem for file in GOLDEN.glob("*.json")} - {"error"} == set(CASES)


def test_unknown_keys_are_ignored() -> None:
    assert decode(b'{"status":"success","later":1}', ValidationResult).status is ValidationStatus.SUCCESS


@pytest.mark.parametrize(
    "text",
    [
        '{"int64":"5"}', '{"int64":9223372036854775808}', '{"int64":1.5}', '"int64"', '{"null":null}', '{"other":1}',
        '{"int64":1,"utf8":"a"}', "5", "null", "[]", '{"decimal":{"value":"1"}}', '{"decimal":"1"}',
        '{"decimal":{"value":"1","scale":2147483648}}', '{"utf8":5}',
    ],
)  # fmt: skip
def test_invalid_cursor_is_refused(text: str) -> None:
    with pytest.raises(msgspec.ValidationError):
        decode(text.encode(), CursorValue)


@pytest.mark.parametrize(
    "text",
    [
        '{"stream_name":"s","schema":{"columns":[]},"sync_mode":"sometimes"}',
        '{"stream_name":"s","schema":"columns","sync_mode":"cdc"}',
        '{"stream_name":"s","schema":{"arrow_ipc_schema":"?"},"sync_mode":"cdc"}',
        '{"stream_name":"s","schema":{"columns":[]},"sync_mode":"cdc","write_mode":{"upsert":["id"]}}',
        '{"stream_name":"s","schema":{"columns":[]},"sync_mode":"cdc","limits":{"max_batch_bytes":-1}}',
        '{"schema":{"columns":[]},"sync_mode":"cdc"}',
    ],
)
def test_stream_context_with_an_invalid_field_is_refused(text: str) -> None:
    with pytest.raises(msgspec.ValidationError):
        decode(text.encode(), StreamContext)


def test_variants_are_immutable_and_compare_by_type_and_value() -> None:
    assert Int64Cursor(1) == Int64Cursor(1) != Int64Cursor(2)
    assert Int64Cursor(1) != TimestampMillisCursor(1)
    assert len({Int64Cursor(1), Int64Cursor(1), Append(), Append()}) == 2
    with pytest.raises(AttributeError):
        Int64Cursor(1).value = 2  # type: ignore[misc]
    with pytest.raises(TypeError):
        DecimalCursor("1")  # type: ignore[call-arg]
