"""Confluent's wire format, against a small registry over real HTTP."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from gauss.contracts.format import BadRecord
from gauss.model.errors import Unavailable
from gauss.plugins.formats.avro.codec import AvroFormat
from gauss.plugins.formats.avro.spec import AvroConfig
from gauss.plugins.formats.protobuf.codec import ProtobufFormat
from gauss.plugins.formats.protobuf.spec import ProtobufConfig
from gauss.plugins.formats.registry import ASK_AGAIN_SECS, MOST_UNKNOWN, SchemaRegistry
from gauss.plugins.formats.registry_config import RegistryConfig
from helpers.format_conformance import assert_alike
from helpers.schema_registry import Registry, registry

OLD = '{"type":"record","name":"Q","fields":[{"name":"symbol","type":"string"}]}'
NEW = (
    '{"type":"record","name":"Q","fields":[{"name":"symbol","type":"string"},'
    '{"name":"bid","type":["null","double"],"default":null}]}'
)
PROTO = (
    'syntax = "proto3"; package m; message A { int32 x = 1; }'
    " message Q { string symbol = 1; message In { int32 y = 1; } }"
)


ANSWERS: dict[str, dict[str, Any]] = {
    "/schemas/ids/1": {"schema": OLD},
    "/schemas/ids/2": {"schema": NEW},
    "/subjects/q-value/versions/latest": {"id": 2, "schema": NEW},
    "/schemas/ids/7": {"schema": PROTO, "schemaType": "PROTOBUF"},
    "/subjects/p-value/versions/latest": {"id": 7, "schema": PROTO, "schemaType": "PROTOBUF"},
}


@pytest.fixture
def server() -> Iterator[Registry]:
    with registry(ANSWERS) as found:
        yield found


@pytest.fixture
def url(server: Registry) -> str:
    return server.url


def avro(url: str, **settings: Any) -> AvroFormat:
    return AvroFormat(AvroConfig.model_validate({"registry": {"url": url, "subject": "q-value", **settings}}))


def test_avro_records_of_two_schemas_become_rows_of_the_newest(url: str) -> None:
    format_ = avro(url)
    records = [b"\0\0\0\0\x01\x02a", format_.encode({"symbol": "b", "bid": 1.5}), b"\0\0\0\0\x09\x02c", b"\x01", b""]
    assert records[1][:5] == b"\0\0\0\0\x02"
    fields = pa.schema([("symbol", pa.string()), ("bid", pa.float64())])
    decoded = format_.decode_batch(pa.array(records, pa.binary()), fields)
    assert decoded.rows.to_pylist() == [{"symbol": "a", "bid": None}, {"symbol": "b", "bid": 1.5}]
    assert [(index, reason) for index, reason, _ in decoded.bad] == [
        *[(2, "unknown_schema"), (3, "no_schema_id"), (4, "no_schema_id")]
    ]
    assert_alike(format_, records)


def test_an_id_that_was_unknown_is_asked_for_again_later(server: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    format_, record = avro(server.url), b"\0\0\0\0\x09\x02c"
    for _ in range(2):
        with pytest.raises(BadRecord, match="no schema has the id 9"):
            format_.decode(record)
    assert server.asked.count("/schemas/ids/9") == 1
    server.answers["/schemas/ids/9"] = {"schema": OLD}
    later = time.monotonic() + ASK_AGAIN_SECS
    monkeypatch.setattr("gauss.plugins.formats.registry.time.monotonic", lambda: later)
    assert format_.decode(record) == {"symbol": "c", "bid": None}


def test_a_schema_is_asked_for_once(server: Registry) -> None:
    format_ = avro(server.url)
    for _ in range(3):
        format_.decode(b"\0\0\0\0\x01\x02a")
        with pytest.raises(BadRecord):
            format_.decode(b"\0\0\0\0\x09\x02a")
    assert server.asked.count("/schemas/ids/1") == 1
    assert server.asked.count("/schemas/ids/9") == 1


def test_schemas_may_lie_in_files_without_a_registry(tmp_path: Path) -> None:
    (tmp_path / "q.avsc").write_text(OLD)
    settings = {"schema_file": tmp_path / "q.avsc", "registry": {"schemas": {"3": tmp_path / "q.avsc"}}}
    format_ = AvroFormat(AvroConfig.model_validate(settings))
    assert format_.decode(b"\0\0\0\0\x03\x02a") == {"symbol": "a"}
    assert_alike(format_, [b"\0\0\0\0\x03\x02a", b"\0\0\0\0\x04\x02a"])


def test_a_registry_that_does_not_answer_can_be_tried_again() -> None:
    with pytest.raises(Unavailable):
        avro("http://127.0.0.1:1")


def test_a_registry_that_wants_a_login_gets_it() -> None:
    with registry(ANSWERS, ("alice", "secret")) as found:
        assert avro(found.url, username="alice", password="secret").decode(b"\0\0\0\0\x01\x02a")["symbol"] == "a"
        with pytest.raises(Unavailable, match="answered 401"):
            avro(found.url, username="alice", password="wrong")


def test_protobuf_records_carry_schema_id_and_message_indexes(url: str) -> None:
    config = {"message": "Q", "registry": {"url": url, "subject": "p-value"}}
    format_ = ProtobufFormat(ProtobufConfig.model_validate(config))
    record = format_.encode({"symbol": "a"})
    assert record == b"\0\0\0\0\x07" + b"\x02\x02" + b"\x0a\x01a"
    assert format_.decode(record) == {"symbol": "a"}
    other = b"\0\0\0\0\x07\x00\x08\x01"
    records = [
        record,
        other,
        b"\0\0\0\0\x08\x00",
        b"\0\0\0",
        record,
        b"\0\0\0\0\x07\x04\x02\x00",
        b"\0\0\0\0\x07\x02\x12",
    ]
    assert_alike(format_, records)
    assert format_.encode_batch(pa.RecordBatch.from_pydict({"symbol": ["a"]})).to_pylist() == [record]


def test_the_first_message_of_a_file_is_unwrapped_by_batch(url: str) -> None:
    config = {"message": "A", "registry": {"url": url, "subject": "p-value"}}
    format_ = ProtobufFormat(ProtobufConfig.model_validate(config))
    record = format_.encode({"x": 5})
    assert record == b"\0\0\0\0\x07\0\x08\x05"
    assert_alike(format_, [record, b"\0\0\0\0\x07\0", b"\0\0\0\0\x09\0\x08\x05", b"\0\0\0\0\x07\0\x08"])


def test_ids_that_nobody_knows_are_not_remembered_without_end(tmp_path: Path) -> None:
    (tmp_path / "q.avsc").write_text(OLD)
    schemas = SchemaRegistry(RegistryConfig(schemas={"1": tmp_path / "q.avsc"}))
    for number in range(2, MOST_UNKNOWN + 100):
        with pytest.raises(BadRecord):
            schemas.schema(number)
    assert len(schemas._unknown) == MOST_UNKNOWN
    assert schemas.schema(1).text == OLD
