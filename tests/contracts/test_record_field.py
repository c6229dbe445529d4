"""Fields of undecoded records: one value per record, whatever the record is."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from gauss.config.formats import build_format
from gauss.contracts.record_field import RecordField
from gauss.model.errors import ConfigError

RECORDS = [b'{"k": "a", "n": 3}', b"not json", b"{}", b'{"k": 7, "n": "x"}', b"", b'{"k": "b", "n": 1.5}']
DECLARED = {"fields": [{"name": "k", "type": "string"}, {"name": "n", "type": "int64"}]}


def field(name: str, config: dict[str, Any], plugin: str = "json") -> RecordField:
    return RecordField(build_format(plugin, config), name, what="key_field")


def binary(*records: bytes) -> pa.Array:
    return pa.array(records, pa.binary())


def test_key_without_a_schema_is_text_or_the_digits_of_a_number() -> None:
    assert field("k", {}).keys(binary(*RECORDS)).to_pylist() == [b"a", None, None, b"7", None, b"b"]


def test_key_with_a_schema_has_its_declared_type() -> None:
    assert field("k", DECLARED).keys(binary(*RECORDS[:3])).to_pylist() == [b"a", None, None]
    assert field("n", DECLARED).keys(binary(*RECORDS[:3])).to_pylist() == [b"3", None, None]


def test_key_may_be_inside_of_another_field() -> None:
    nested = binary(b'{"order": {"id": "x", "n": 4}}', b'{"order": 1}')
    assert field("$.order.id", {}).keys(nested).to_pylist() == [b"x", None]
    declared = {"fields": [{"name": "$.order.n", "type": "int64"}]}
    assert field("$.order.n", declared).keys(nested).to_pylist() == [b"4", None]


@pytest.mark.parametrize("config", [{}, DECLARED])
def test_what_is_no_whole_number_is_null(config: dict[str, Any]) -> None:
    assert field("n", config).numbers(binary(*RECORDS)).to_pylist() == [3, None, None, None, None, None]
    assert field("k", DECLARED).numbers(binary(RECORDS[0])).to_pylist() == [None]


def test_no_records_have_no_values() -> None:
    assert len(field("k", {}).keys(binary())) == len(field("n", DECLARED).numbers(binary())) == 0


def test_unknown_field_is_refused_with_those_that_exist() -> None:
    with pytest.raises(ConfigError, match='no field "z" for key_field') as caught:
        field("z", DECLARED)
    assert "k, n" in caught.value.hint
