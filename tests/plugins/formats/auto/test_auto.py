"""auto: detects the format of each record from its first bytes."""

from __future__ import annotations

import io

import fastavro
import pyarrow as pa
import pytest

from gauss.contracts.format import BadRecord
from gauss.plugins.formats.arrow.codec import ArrowFormat
from gauss.plugins.formats.arrow.spec import ArrowConfig
from gauss.plugins.formats.auto.codec import AutoFormat, detect
from gauss.plugins.formats.auto.spec import AutoFormatConfig


def container() -> bytes:
    out = io.BytesIO()
    schema = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "long"}, {"name": "b", "type": "string"}]}
    fastavro.writer(out, fastavro.parse_schema(schema), [{"a": 3, "b": "avro"}, {"a": 4, "b": "avro"}])
    return out.getvalue()


JSON, CSV = b' {"a": 1, "b": "json"}', b'2;"c;sv"'
ARROW = ArrowFormat(ArrowConfig()).encode({"a": 5, "b": "arrow"})


def test_the_first_bytes_tell_the_format() -> None:
    assert [detect(record) for record in (JSON, CSV, container(), ARROW)] == ["json", "csv", "avro", "arrow"]


@pytest.mark.parametrize("record", [b"", b"  ", b"\x00\x01\x02", b"\x82\xa1a"])
def test_bytes_of_no_known_format_are_refused(record: bytes) -> None:
    with pytest.raises((BadRecord, UnicodeDecodeError)):
        AutoFormat(AutoFormatConfig()).decode(record)


def test_records_of_all_formats_become_rows_in_their_order() -> None:
    format_ = AutoFormat(AutoFormatConfig(columns=["a", "b"]))
    records = [ARROW, JSON, b"\0", CSV, container(), b"{", b"x;y"]
    decoded = format_.decode_batch(pa.array(records, pa.binary()), pa.schema([("a", pa.int64()), ("b", pa.string())]))
    assert [(row["a"], row["b"]) for row in decoded.rows.to_pylist()] == [
        *[(5, "arrow"), (1, "json"), (2, "c;sv"), (3, "avro"), (4, "avro")]
    ]
    assert decoded.good.tolist() == [0, 1, 3, 4, 4]
    assert [(index, reason) for index, reason, _ in decoded.bad] == [
        *[(2, "unknown_format"), (5, "bad_json"), (6, "wrong_type")]
    ]


def test_cells_without_names_are_numbered() -> None:
    assert AutoFormat(AutoFormatConfig()).decode(b'1\t"x\ty"\tz') == {"c0": "1", "c1": "x\ty", "c2": "z"}
