"""mask: its lint, the fields it decodes, and its results."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from gauss.contracts.transform import Schemas
from gauss.model.errors import ConfigError
from helpers.processors import batch_of, faults_of, names_of, schema_of, transform_of

JSON = {"format": "json"}
SCHEMA = schema_of(id="int64", email="string", card__number="string")


def masked(values: list[str | None], **config: Any) -> list[str | None]:
    made = transform_of("mask", input=JSON, fields=["email"], **config)
    fields = made.bind(Schemas(SCHEMA)).fields
    found: list[str | None] = (
        made.arrow(batch_of(fields, [{"email": value} for value in values])).column("email").to_pylist()
    )
    return found


def test_redact_puts_a_text_in_place_of_every_value() -> None:
    assert masked(["a@b.c", "", None]) == ["***", "***", None]
    assert masked(["a@b.c"], method="redact", text="hidden") == ["hidden"]


def test_hash_keeps_equal_values_equal_and_depends_on_the_salt() -> None:
    found = masked(["é", "é", None, ""], method="hash", salt="s")
    assert found == [hashlib.sha256("sé".encode()).hexdigest()] * 2 + [None, hashlib.sha256(b"s").hexdigest()]
    assert masked(["é"], method="hash") != found[:1]


def test_partial_shows_the_end_of_long_values_alone() -> None:
    assert masked(["1234567890", "1234", "é€😀é€😀", "", None], method="partial") == [
        "******7890",
        "****",
        "**😀é€😀",
        "",
        None,
    ]
    assert masked(["abc"], method="partial", keep=0) == ["***"]


def test_null_removes_a_value_of_any_type() -> None:
    made = transform_of("mask", input=JSON, fields=["id", "card.number"], method="null")
    fields = made.bind(Schemas(SCHEMA)).fields
    row = {"id": 1, "email": "e", "$.card.number": "n"}
    assert made.arrow(batch_of(fields, [row])).to_pylist() == [
        {"_ts_ms": 10, "id": None, "email": "e", "$.card.number": None}
    ]


def test_without_any_schema_the_rest_of_the_record_is_carried() -> None:
    made = transform_of("mask", input=JSON, fields=["card.number"])
    traits = made.bind(Schemas())
    assert names_of(traits.fields) == {"$.card.number": "string"}
    assert traits.carries
    found = made.arrow(batch_of(traits.fields, [{"$.card.number": "1"}], [b"{}"]))
    assert found.to_pylist() == [{"_ts_ms": 10, "_rest": b"{}", "$.card.number": "***"}]


def test_the_outputs_schema_says_what_is_decoded_when_the_input_has_none() -> None:
    made = transform_of("mask", input=JSON, output={"format": "csv"}, fields=["email"])
    traits = made.bind(Schemas(None, schema_of(id="int64", email="string")))
    fields = traits.fields
    assert names_of(fields) == {"id": "int64", "email": "string"}
    assert not traits.carries
    assert made.arrow(batch_of(fields, [{"id": 1, "email": "e"}])).to_pylist() == [
        {"_ts_ms": 10, "id": 1, "email": "***"}
    ]


def test_a_masked_field_that_the_output_does_not_write_is_not_written() -> None:
    made = transform_of("mask", input=JSON, output={"format": "csv"}, fields=["email"])
    fields = made.bind(Schemas(SCHEMA, schema_of(id="int64"))).fields
    assert made.arrow(batch_of(fields, [{"id": 1, "email": "e"}])).to_pylist() == [{"_ts_ms": 10, "id": 1}]


def test_text_methods_refuse_fields_of_other_types() -> None:
    with pytest.raises(ConfigError, match='"id" is int64, and method = "hash" hides text'):
        transform_of("mask", input=JSON, fields=["id"], method="hash").bind(Schemas(SCHEMA))


def test_a_key_of_another_method_is_a_fault() -> None:
    with pytest.raises(ValueError, match='"keep" belongs to method = "partial"'):
        transform_of("mask", input=JSON, fields=["email"], keep=2)


def test_lint_tells_a_missing_format_and_unknown_fields() -> None:
    assert "needs a format" in faults_of("mask", input={}, fields=["a"])[0]
    assert faults_of("mask", ("email", "$.o.id"), input=JSON, fields=["o.id", "phone"]) == [
        'fields: the input format has no field "phone" (it has: email, o.id)'
    ]
