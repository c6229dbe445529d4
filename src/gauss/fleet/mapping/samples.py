"""Sampled records, decoded without loss, whatever the format."""

from __future__ import annotations

import json
from collections.abc import Mapping as Items
from collections.abc import Sequence
from decimal import Decimal
from typing import Any, NamedTuple

from gauss.clients.clickhouse.type_map import column_type
from gauss.clients.clickhouse.types import render_type
from gauss.config.formats import build_format
from gauss.contracts.format import BadRecord, SourceField
from gauss.contracts.target import as_field_type
from gauss.fleet.mapping.column import Mapping, MappingColumn
from gauss.fleet.mapping.compile import TYPED, check_format
from gauss.fleet.mapping.infer import free_name
from gauss.fleet.mapping.proposal import Proposal, propose
from gauss.fleet.mapping.values import collect


class DecodedSample(NamedTuple):
    """A record as an object, or why it is none."""

    value: dict[str, Any] | None
    reason: str = ""
    detail: str = ""


def decode_samples(data: Sequence[bytes | None], format_name: str, config: Items[str, Any]) -> list[DecodedSample]:
    """Numbers of JSON keep all their digits."""
    check_format(format_name, config)
    made = build_format(
        format_name, {key: value for key, value in config.items() if key != "fields" or format_name not in TYPED}
    )
    decode = _decode_json if format_name == "json" else made.decode
    found = []
    for record in data:
        if record is None:
            found.append(DecodedSample(None, "tombstone", "the record has no value"))
            continue
        try:
            found.append(DecodedSample(decode(record)))
        except BadRecord as error:
            found.append(DecodedSample(None, error.reason, error.detail))
        except (ValueError, RecursionError) as error:  # such as a number of thousands of digits
            found.append(DecodedSample(None, f"bad_{format_name}", str(error)))
    return found


def _decode_json(record: bytes) -> dict[str, Any]:
    """The object of a record. The format itself would make doubles of fractions, and refuse the largest integers."""
    value = json.loads(record.decode(), parse_float=Decimal, parse_constant=_no_number)
    if not isinstance(value, dict):
        raise BadRecord("not_object", "expected an object")
    return value


def _no_number(text: str) -> None:
    raise BadRecord("bad_json", f"{text} is no number in JSON")


def propose_from(data: Sequence[bytes | None], format_name: str, config: Items[str, Any]) -> Proposal:
    """The mapping for samples. Formats with a schema have the types of the schema."""
    if format_name in TYPED or format_name == "csv":
        values = [each.value for each in decode_samples(data, format_name, config) if each.value is not None]
        found = propose(collect(values))
        return found if format_name == "json" else _without_json(found)
    check_format(format_name, config)
    schema = build_format(format_name, config).schema()
    columns, taken = [], set[str]()
    for field in () if schema is None else schema.fields:
        if (made := _typed_column(field, taken)) is not None:
            columns.append(made)
    names = {each.field_path for each in columns}
    ignored = tuple(field.name for field in (schema.fields if schema else ()) if field.name not in names)
    return Proposal(Mapping(columns=columns), None, ignored)


def _without_json(found: Proposal) -> Proposal:
    """Without columns of JSON text, which only JSON has."""
    mapping = found.mapping
    columns = [each for each in mapping.columns if each.encoding != "json"]
    names = {each.column for each in columns}
    left_out = tuple(each.field_path for each in mapping.columns if each.encoding == "json")
    kept = mapping.model_copy(
        update={"columns": columns, "order_by": [each for each in mapping.order_by if each in names]}
    )
    return found._replace(mapping=kept, ignored=(*found.ignored, *left_out))


def _typed_column(field: SourceField, taken: set[str]) -> MappingColumn | None:
    """The column of a field with a type; None if ClickHouse has no type for it."""
    kind = column_type(field.field_type)
    if kind is None:
        return None
    name, nullable = free_name(field.name.removeprefix("$."), taken), kind.name == "Nullable"
    taken.add(name)
    inner = as_field_type(kind.attrs["inner"]) if nullable else kind
    path = field.name.removeprefix("$.")
    return MappingColumn(field_path=path, column=name, type=render_type(inner), nullable=nullable)
