"""The conformance suite of formats: `class TestMine(FormatConformance): case = FormatCase(…)`.

Every record, good or bad, has the same result by batch and one by one, and encoded rows decode to the same values.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from typing import Any, ClassVar

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gauss.contracts.field_types import arrow_schema
from gauss.contracts.format import Format, SourceSchema
from gauss.contracts.format_batch import encode_good, verdict
from helpers.cases import cases

FAULTS = (ValueError, ArithmeticError, LookupError, TypeError, AttributeError, RecursionError, struct.error)
Row = dict[str, Any]


@dataclass(frozen=True)
class FormatCase:
    """A format under test."""

    make: Callable[[], Format]
    """Builds the format, which must have a schema."""
    rows: st.SearchStrategy[Row]
    """Rows that the format can encode, as `decode` returns them."""
    edges: list[Row] = field(default_factory=list)
    """Rows at the limits of its types, which must round-trip unchanged."""
    records: st.SearchStrategy[bytes] = field(default_factory=st.nothing)
    """Records of this format, valid or not."""
    bad: list[tuple[bytes, str]] = field(default_factory=list)
    """Invalid records, each with the expected reason code."""
    unfit: list[Row] = field(default_factory=list)
    """Rows that cannot be encoded: a value out of range, or a missing required one."""

    @cached_property
    def format(self) -> Format:
        return self.make()

    @property
    def schema(self) -> SourceSchema:
        found = self.format.schema()
        assert found is not None
        return found


def same(value: Any) -> Any:
    """A comparable form of a value: NaN equals itself, zeros differ by sign, maps have no order."""
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, float):
        return ("float", "nan") if math.isnan(value) else ("float", value, math.copysign(1, value))
    if isinstance(value, int | Decimal):
        return ("number", Decimal(value))
    if isinstance(value, dict):
        return {key: same(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        inner = [same(item) for item in value]
        pairs = value and all(
            (isinstance(item, tuple) and len(item) == 2) or (isinstance(item, dict) and set(item) == {"key", "value"})
            for item in value
        )
        return sorted(inner, key=repr) if pairs else inner
    return value


def one_by_one(format_: Format, records: list[bytes]) -> tuple[list[Row], list[int], list[tuple[int, str, str]]]:
    """The results of the per-record path."""
    rows: list[Row] = []
    good: list[int] = []
    bad = []
    decode: Callable[[bytes], list[Row]] = getattr(format_, "decode_rows", lambda data: [format_.decode(data)])
    for index, record in enumerate(records):
        try:
            found = decode(record)
        except FAULTS as error:
            bad.append((index, *verdict(error)))
        else:
            rows.extend(found)
            good.extend([index] * len(found))
    return rows, good, bad


def assert_alike(format_: Format, records: list[bytes]) -> None:
    """Checks that both paths return the same rows and errors."""
    schema = format_.schema()
    assert schema is not None
    fields = arrow_schema(schema.fields)
    decoded = format_.decode_batch(pa.array(records, pa.binary()), fields)
    rows, good, bad = one_by_one(format_, records)
    assert decoded.bad == bad
    assert decoded.good.tolist() == good
    assert decoded.rows.schema.types == fields.types
    assert same(decoded.rows.to_pylist()) == same(rows)
    decoded.rows.validate(full=True)
    assert decoded.spread or good == [index for index in range(len(records)) if index not in {b[0] for b in bad}]


@st.composite
def mutated(draw: st.DrawFn, records: st.SearchStrategy[bytes]) -> bytes:
    """A valid record with a random mutation."""
    record = bytearray(draw(records))
    match draw(st.sampled_from(["none", "cut", "flip", "insert", "double", "drop"])):
        case "cut":
            return bytes(record[: draw(st.integers(0, len(record)))])
        case "flip" if record:
            record[draw(st.integers(0, len(record) - 1))] = draw(st.integers(0, 255))
        case "insert":
            place = draw(st.integers(0, len(record)))
            record[place:place] = draw(st.binary(min_size=1, max_size=3))
        case "double":
            return bytes(record + record)
        case "drop" if record:
            del record[draw(st.integers(0, len(record) - 1))]
    return bytes(record)


def _wide_enough(column: pa.Field, rows: list[Row]) -> pa.Field:
    """The column, cast to a wider type if it cannot hold such values."""
    values = [row[column.name] for row in rows]
    try:
        pa.array(values, column.type)
    except (pa.ArrowInvalid, OverflowError):
        return pa.field(column.name, pa.array(values).type)
    return column


SETTINGS = settings(deadline=None, max_examples=cases(25), suppress_health_check=list(HealthCheck))


class FormatConformance:
    """The suite."""

    case: ClassVar[FormatCase]

    @SETTINGS
    @given(st.data())
    def test_what_was_encoded_decodes_to_the_same_values(self, data: st.DataObject) -> None:
        row = data.draw(self.case.rows)
        assert same(self.case.format.decode(self.case.format.encode(row))) == same(row)

    def test_values_at_the_limits_of_their_types_come_back(self) -> None:
        for row in self.case.edges:
            record = self.case.format.encode(row)
            assert same(self.case.format.decode(record)) == same(row)
            assert_alike(self.case.format, [record, record])

    @SETTINGS
    @given(st.data())
    def test_good_records_decode_alike_by_batch_and_one_by_one(self, data: st.DataObject) -> None:
        records = [self.case.format.encode(row) for row in data.draw(st.lists(self.case.rows, max_size=12))]
        assert_alike(self.case.format, records)
        assert one_by_one(self.case.format, records)[2] == []

    @settings(SETTINGS, max_examples=cases(75))
    @given(st.data())
    def test_bad_records_have_the_same_verdict_by_batch_and_one_by_one(self, data: st.DataObject) -> None:
        good = self.case.rows.map(self.case.format.encode)
        any_record = st.one_of(
            mutated(good), good, mutated(self.case.records) | self.case.records, st.binary(max_size=9)
        )
        assert_alike(self.case.format, data.draw(st.lists(any_record, max_size=8)))

    def test_each_documented_case_has_its_verdict_and_costs_one_record(self) -> None:
        whole = [self.case.format.encode(row) for row in self.case.edges[:1]]
        for record, reason in self.case.bad:
            _, _, bad = one_by_one(self.case.format, [record])
            assert [found for _, found, _ in bad] == [reason], (record, bad)
            assert_alike(self.case.format, [*whole, record, *whole])

    @SETTINGS
    @given(st.data())
    def test_encoding_by_batch_says_what_encoding_one_row_says(self, data: st.DataObject) -> None:
        rows = data.draw(st.lists(self.case.rows, min_size=1, max_size=6))
        fields = arrow_schema(self.case.schema.fields)
        records = self.case.format.encode_batch(pa.RecordBatch.from_pylist(rows, schema=fields)).to_pylist()
        found, _, bad = one_by_one(self.case.format, records)
        assert bad == []
        assert same(found) == same(rows)

    def test_a_row_that_can_not_be_encoded_costs_itself(self) -> None:
        fields = arrow_schema(self.case.schema.fields)
        for row in self.case.unfit:
            with pytest.raises(FAULTS):
                self.case.format.encode(row)
            rows = [*self.case.edges[:1], row, *self.case.edges[:1]]
            wide = pa.schema([_wide_enough(column, rows) for column in fields])
            records, kept, bad = encode_good(self.case.format, pa.RecordBatch.from_pylist(rows, schema=wide))
            assert [index for index, _, _ in bad] == [1], (row, bad)
            assert kept.tolist() == [0, 2]
            assert same(one_by_one(self.case.format, records.to_pylist())[0]) == same(rows[::2])

    def test_no_records_give_no_rows(self) -> None:
        decoded = self.case.format.decode_batch(pa.array([], pa.binary()), arrow_schema(self.case.schema.fields))
        assert (len(decoded.rows), len(decoded.good), decoded.bad) == (0, 0, [])

    def test_a_slice_of_records_decodes_as_its_records(self) -> None:
        records = [self.case.format.encode(row) for row in self.case.edges] * 2
        fields = arrow_schema(self.case.schema.fields)
        sliced = pa.array([b"before", *records, b"after"], pa.binary()).slice(1, len(records))
        decoded = self.case.format.decode_batch(sliced, fields)
        assert decoded.bad == []
        assert same(decoded.rows.to_pylist()) == same(one_by_one(self.case.format, records)[0])

    def test_only_the_asked_columns_are_given(self) -> None:
        fields = pa.schema([arrow_schema(self.case.schema.fields).field(0)])
        records = pa.array([self.case.format.encode(row) for row in self.case.edges], pa.binary())
        assert self.case.format.decode_batch(records, fields).rows.schema.names == fields.names
