"""Key, headers, partition and offset of records as fields of programs."""

from __future__ import annotations

import pyarrow as pa

from gauss.model.batch import KEYED_SCHEMA, RECORD_SCHEMA
from gauss.stream.driver.planning.reads import RangeRead
from gauss.stream.driver.planning.refs import FieldRef, FormatRef
from gauss.stream.driver.tasks.reading import Range, decode
from gauss.stream.driver.tasks.record_meta import meta_columns

FIELDS = [
    pa.field("@key", pa.string()),
    pa.field("@headers", pa.string()),
    pa.field("$.@headers.h", pa.string()),
    pa.field("@partition", pa.float64()),
    pa.field("@offset", pa.int64()),
]
JSON = {"gauss": "json"}
RECORDS = pa.RecordBatch.from_pylist(
    [
        {"offset": 7, "ts_ms": 1, "data": b'{"@key": "own"}', "key": b"a", "headers": [{"key": "h", "value": b"1"}]},
        {"offset": 9, "ts_ms": 1, "data": b"{}", "key": None, "headers": []},
        {"offset": 10, "ts_ms": 1, "data": b"{}", "key": b"\xff", "headers": [{"key": "h", "value": None}]},
        {
            "offset": 11,
            "ts_ms": 1,
            "data": b"{}",
            "key": b'"',
            "headers": [{"key": "h", "value": b"2"}, {"key": "i", "value": b"3"}, {"key": "h", "value": b"\xff"}],
        },
    ],
    schema=KEYED_SCHEMA,
)


def test_columns_are_those_of_the_records_in_the_wanted_types() -> None:
    found = {name: column.to_pylist() for name, column in meta_columns(RECORDS, FIELDS, 3).items()}
    assert found == {
        "@key": ["a", None, "\ufffd", '"'],
        "@headers": ['{"h":"1"}', "{}", '{"h":null}', '{"h":"\ufffd","i":"3"}'],
        "$.@headers.h": ["1", None, None, "\ufffd"],
        "@partition": [3.0] * 4,
        "@offset": [7, 9, 10, 11],
    }


def test_values_of_any_type_are_json_text() -> None:
    fields = [pa.field(name, pa.string(), metadata=JSON) for name in ("@key", "@headers", "@offset")]
    found = {name: column.to_pylist() for name, column in meta_columns(RECORDS, fields, 3).items()}
    assert found["@key"] == ['"a"', None, '"\ufffd"', '"\\""']
    assert found["@headers"][0] == '{"h":"1"}'
    assert found["@offset"] == ["7", "9", "10", "11"]
    plain = meta_columns(RECORDS.slice(0, 2), fields, 3)["@key"]
    assert plain.to_pylist() == ['"a"', None]


def test_replayed_records_have_lost_all_of_them() -> None:
    records = pa.RecordBatch.from_pylist([{"offset": 0, "ts_ms": 1, "data": b""}], schema=RECORD_SCHEMA)
    found = meta_columns(records, FIELDS, None)
    assert [column.to_pylist() for column in found.values()] == [[None]] * len(FIELDS)


def test_only_fields_marked_as_beside_the_data_are_taken_from_there() -> None:
    def keys(*, beside: bool, topic: str = "given") -> list[str | None]:
        plan = RangeRead("", "p", 0, FormatRef("json"), outside=["given"])
        fields = pa.schema([FieldRef("@key", "string", beside=beside).arrow()])
        (found,) = decode(plan, RECORDS.slice(0, 2), fields, Range(topic, 1, 7, 11), [])
        values: list[str | None] = found.column("@key").to_pylist()
        return values

    assert keys(beside=True) == ["a", None]
    assert keys(beside=False) == ["own", None]
    assert keys(beside=True, topic="_retry.p") == [None, None]
