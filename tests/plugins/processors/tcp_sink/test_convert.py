"""A sink whose output format differs from its topic's, for every pair of formats."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pyarrow as pa
import pytest

from gauss.contracts.format import Format
from gauss.contracts.storage import Capacity, WriteFull
from gauss.model.errors import ConfigError
from gauss.plugins.processors.tcp_sink.convert import Conversion
from gauss.stream.engine.topics.table_topic import TableTopic
from helpers.edges import NEWLINE, PREFIXED, Bench
from helpers.format_kinds import WITH_SCHEMA, format_ref
from helpers.logs import arrow
from helpers.tables import open_table
from helpers.waiting import wait_until

FIELDS = {"symbol": "string", "bid": "double", "size": "int64"}
ROWS = [{"symbol": "EURUSD", "bid": 1.5, "size": 3}, {"symbol": "USDJPY", "bid": 151.25, "size": 0}]


def made(plugin: str, folder: Path, fields: dict[str, str] | None = None) -> Format:
    return format_ref(plugin, folder, fields or FIELDS).build()


def records_of(format_: Format, rows: list[dict[str, object]]) -> list[bytes]:
    return [format_.encode_batch(pa.RecordBatch.from_pylist([row]))[0].as_py() for row in rows]


def read_lines(sock: socket.socket, count: int) -> list[bytes]:
    with sock.makefile("rb") as stream:
        return [stream.readline().rstrip(b"\n") for _ in range(count)]


@pytest.mark.parametrize("written", WITH_SCHEMA)
@pytest.mark.parametrize("read", WITH_SCHEMA)
def test_rows_stay_the_same_between_any_two_formats(read: str, written: str, tmp_path: Path) -> None:
    source, target = made(read, tmp_path), made(written, tmp_path)
    converted = Conversion(source, target).convert(pa.array(records_of(source, ROWS), pa.binary()))
    rows: list[dict[str, object]] = []
    for record in converted.records.to_pylist():
        rows += target.decode_rows(record) if hasattr(target, "decode_rows") else [target.decode(record)]
    assert rows == ROWS
    assert converted.bad == []


@pytest.mark.parametrize("plugin", WITH_SCHEMA)
def test_only_the_fields_of_the_outputs_schema_are_written(plugin: str, tmp_path: Path) -> None:
    source, target = made("json", tmp_path), made(plugin, tmp_path, {"symbol": "string"})
    converted = Conversion(source, target).convert(pa.array(records_of(source, ROWS[:1]), pa.binary()))
    assert [target.decode(record) for record in converted.records.to_pylist()] == [{"symbol": "EURUSD"}]


@pytest.mark.parametrize("plugin", WITH_SCHEMA)
def test_an_output_with_a_field_that_the_input_lacks_is_refused(plugin: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="writes size, which the input format does not have"):
        Conversion(made("avro", tmp_path, {"symbol": "string", "bid": "double"}), made(plugin, tmp_path))


@pytest.mark.parametrize("written", ["json", "msgpack"])
@pytest.mark.parametrize("read", ["json", "msgpack"])
def test_records_without_any_schema_are_converted_whole(read: str, written: str) -> None:
    bench = Bench(Path())
    source, target = bench.format(read), bench.format(written)
    row = {"a": 1, "b": {"c": [True, None]}}
    converted = Conversion(source, target).convert(pa.array([source.encode(row), b"\xc1"], pa.binary()))
    assert [target.decode(record) for record in converted.records.to_pylist()] == [row]
    assert [(each.record, each.stage) for each in converted.bad] == [(1, "decode")]


def test_protobuf_records_leave_as_json_lines(bench: Bench, tmp_path: Path) -> None:
    bench.formats["quote"] = made("protobuf", tmp_path)
    topic = bench.topic()
    topic.append(arrow(*records_of(bench.formats["quote"], ROWS)))
    sink = bench.edge("tcp-sink", {"output": {**NEWLINE, "format": "json"}}, topic, formats=("quote", "json"))
    with sink.connect() as sock:
        assert [json.loads(line) for line in read_lines(sock, 2)] == ROWS
        topic.append(arrow(*records_of(bench.formats["quote"], ROWS[:1])))
        assert json.loads(read_lines(sock, 1)[0]) == ROWS[0]
    assert bench.dead == []


def test_a_record_that_cannot_be_converted_is_one_dead_letter_with_its_own_bytes(bench: Bench, tmp_path: Path) -> None:
    bench.formats["quote"] = made("csv", tmp_path)
    bench.formats["small"] = format_ref("pg-binary", tmp_path, {"symbol": "string"}).build()
    topic = bench.topic()
    topic.append(arrow(b"A,much,1", b"B,1.5,1"))
    sink = bench.edge("tcp-sink", {"output": {**PREFIXED, "format": "small"}}, topic, formats=("quote", "small"))
    for _ in range(2):
        with sink.connect() as sock:
            assert sock.recv(64)[4:] == bench.formats["small"].encode({"symbol": "B"})
    wait_until(lambda: bench.dead)
    assert [(letter.data, letter.offset, letter.stage) for letter in bench.dead] == [(b"A,much,1", 0, "decode")]


def test_a_container_becomes_a_frame_per_row_and_goes_on_after_it(bench: Bench, tmp_path: Path) -> None:
    bench.formats["quotes"] = made("arrow", tmp_path)
    whole = bench.formats["quotes"].encode_batch(pa.RecordBatch.from_pylist(ROWS)).to_pylist()
    topic = bench.topic()
    topic.append(arrow(*whole, *whole))
    config = {"output": {**NEWLINE, "format": "json"}, "start": "resume"}
    sink = bench.edge("tcp-sink", config, topic, formats=("quotes", "json"))
    with sink.connect() as sock:
        assert [json.loads(line) for line in read_lines(sock, 4)] == ROWS * 2
    wait_until(lambda: [reader.position for reader in topic.readers.all()] == [2])


def test_rows_of_a_table_are_converted_in_snapshots_and_subscriptions(bench: Bench) -> None:
    topic = TableTopic("t", open_table(), Capacity(None, None, WriteFull.DROP))
    topic.append(arrow(b'{"k":"a","n":1}'))
    output = {**PREFIXED, "format": "msgpack"}
    for read in ("snapshot", "subscribe"):
        sink = bench.edge("tcp-sink", {"output": output}, topic, read, formats=("json", "msgpack"))
        with sink.connect() as sock:
            assert sock.recv(64) == b"\x00\x00\x00\x08\x82\xa1k\xa1a\xa1n\x01"


def test_equal_formats_send_the_chunks_of_the_topic_as_they_lie(bench: Bench) -> None:
    """Bytes that are not JSON pass, so nothing decodes them."""
    topic = bench.topic()
    topic.append(arrow(b"no json"))
    sink = bench.edge("tcp-sink", {"output": {**NEWLINE, "format": "json"}}, topic)
    with sink.connect() as sock:
        assert read_lines(sock, 1) == [b"no json"]
    assert bench.dead == []
