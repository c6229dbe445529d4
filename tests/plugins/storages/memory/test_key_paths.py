"""Keys inside records, for every format that supports them, with and without a schema."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gauss import registry
from gauss.contracts.cursor import Program
from gauss.contracts.format import Format, FormatSpec
from gauss.contracts.format_batch import batched
from gauss.model.errors import ConfigError
from gauss.plugins.formats.avro.container import close_container
from helpers.tables import open_table, rows, upsert

PROTO = """
syntax = "proto3";
message Customer { string id = 1; int64 number = 2; repeated string tags = 3; }
message Order { Customer customer = 1; }
message Event { Order order = 1; double amount = 2; }
"""
AVRO = {
    "type": "record", "name": "Event", "fields": [
        {"name": "order", "type": {"type": "record", "name": "Order", "fields": [
            {"name": "customer", "type": ["null", {"type": "record", "name": "Customer", "fields": [
                {"name": "id", "type": "string"}, {"name": "number", "type": "long"}]}]}]}},
        {"name": "amount", "type": "double"}],
}  # fmt: skip
TYPED = [
    {"name": "$.order.customer.id", "type": "string"},
    {"name": "$.order.customer.number", "type": "int64"},
    {"name": "amount", "type": "double"},
]


def built(plugin: str, config: dict[str, Any]) -> Format:
    spec = registry.spec(FormatSpec, plugin)
    return batched(registry.build(spec, spec.validate(config)))


@pytest.fixture(params=["json", "json typed", "msgpack", "protobuf", "avro"])
def codec(request: pytest.FixtureRequest, tmp_path: Path) -> Format:
    (tmp_path / "event.proto").write_text(PROTO)
    (tmp_path / "event.avsc").write_text(json.dumps(AVRO))
    configs: dict[str, dict[str, Any]] = {
        "json": {},
        "json typed": {"fields": TYPED},
        "msgpack": {},
        "protobuf": {"proto": str(tmp_path / "event.proto"), "message": "Event"},
        "avro": {"schema_file": str(tmp_path / "event.avsc")},
    }
    name = str(request.param)
    return built(name.split(maxsplit=1)[0], configs[name])


def event(codec: Format, id_: str, number: int, amount: float) -> bytes:
    nested = {"order": {"customer": {"id": id_, "number": number}}, "amount": amount}
    flat = {"$.order.customer.id": id_, "$.order.customer.number": number, "amount": amount}
    schema = codec.schema()
    paths = schema is not None and schema.fields[0].name.startswith("$.")
    return codec.encode(flat if paths else nested)


@pytest.mark.parametrize("prefix", ["", "$."])
@pytest.mark.parametrize(("leaf", "keys"), [("id", ["ann", "bob"]), ("number", ["7", "8"])])
def test_newest_record_of_a_nested_key_stays(codec: Format, prefix: str, leaf: str, keys: list[str]) -> None:
    table = open_table(codec, key_field=f"{prefix}order.customer.{leaf}", delete_when=None)
    newest = [event(codec, "ann", 7, 3.0), event(codec, "bob", 8, 2.0)]
    _, letters = upsert(table, event(codec, "ann", 7, 1.0), newest[1], newest[0])
    assert letters == []
    assert {row["key"]: row["data"] for row in rows(table.open(Program()))} == dict(zip(keys, newest, strict=True))


def test_a_record_without_the_way_to_its_key_is_a_dead_letter(codec: Format) -> None:
    schema = codec.schema()
    if schema is not None and schema.fields[0].name.startswith("$."):
        empty = b'{"order": {}}'
    else:
        empty = codec.encode({"order": {"customer": None}, "amount": 1.0})
    table = open_table(codec, key_field="order.customer.id", delete_when=None)
    _, letters = upsert(table, event(codec, "ann", 7, 1.0), empty)
    assert [letter.reason for letter in letters] == ["missing_key"]
    assert table.rows == 1


def test_csv_is_keyed_by_a_column_whatever_its_name() -> None:
    codec = built("csv", {"fields": [{"name": "order.id", "type": "string"}, {"name": "v", "type": "double"}]})
    table = open_table(codec, key_field="order.id", delete_when=None)
    upsert(table, b"a,1", b"b,2", b"a,3")
    assert {row["key"]: row["data"] for row in rows(table.open(Program()))} == {"a": b"a,3", "b": b"b,2"}


def test_a_way_that_the_format_does_not_have_is_refused_with_what_it_has(tmp_path: Path) -> None:
    (tmp_path / "event.proto").write_text(PROTO)
    codec = built("protobuf", {"proto": str(tmp_path / "event.proto"), "message": "Event"})
    for path in ("order.nobody.id", "amount.id", "order.customer.tags", "nothing"):
        with pytest.raises(ConfigError, match="key_field") as found:
            open_table(codec, key_field=path, delete_when=None)
        assert found.value.hint


def test_hostile_records_cost_themselves_and_no_other_key(codec: Format) -> None:
    table = open_table(codec, key_field="order.customer.id", delete_when=None)
    hostile = [
        b"[" * 100_000,
        b"\xff" * 100_000,
        close_container('{"type": "record", "name": "R", "fields": [{"name": "a"}]}', b"", 1),
        close_container("[" * 100_000, b"", 1),
    ]
    good = [event(codec, "ann", 7, 1.0), event(codec, "bob", 8, 2.0)]
    _, letters = upsert(table, good[0], *hostile, good[1])
    assert {row["key"] for row in rows(table.open(Program()))} == {"ann", "bob"}
    assert len(letters) == len(hostile)
    assert all(letter.reason and len(letter.detail) < 2_000 for letter in letters)
