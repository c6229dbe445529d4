"""Arrow IPC in the guest kit: pyarrow reads what modules write, and modules read what pyarrow writes."""

from __future__ import annotations

import datetime
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gauss.connect.arrow_ipc import read_batch, write_batch
from gauss.connect.wasm.guest import Guest, read_module
from gauss.contracts.connector.errors import ConnectorError
from gauss.contracts.connector.lifecycle import JsonConfig, OpenContext, OpenInfo
from gauss.contracts.connector.progress import ReadSummary, WriteSummary
from helpers.connectors import OneStream

MODULES = Path(os.environ.get("GAUSS_SDK_MODULES", Path(__file__).parents[3] / "sdk/modules"))
FINITE = st.floats(allow_nan=False, allow_infinity=False)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
INTEGERS = st.integers(-(2**63), 2**63 - 1)
TYPES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "int64": (pa.int64(), INTEGERS),
    "float64": (pa.float64(), FINITE),
    "utf8": (pa.string(), TEXT),
    "bool": (pa.bool_(), st.booleans()),
}


@st.composite
def batches(draw: st.DrawFn) -> pa.RecordBatch:
    """A batch of the four types, with nulls where the schema allows them."""
    rows = draw(st.integers(1, 70))
    fields, columns = [], []
    for number in range(draw(st.integers(1, 5))):
        kind, values = TYPES[draw(st.sampled_from(sorted(TYPES)))]
        nullable = draw(st.booleans())
        fields.append(pa.field(draw(TEXT) + str(number), kind, nullable))
        one = values | st.none() if nullable else values
        columns.append(pa.array(draw(st.lists(one, min_size=rows, max_size=rows)), kind))
    return pa.record_batch(columns, pa.schema(fields))


class Reading:
    """The destination `probe`, which writes every batch again."""

    def __init__(self) -> None:
        self.both = OneStream()
        self.both.run.channel.end()  # what is emitted is still delivered, and each run ends behind it
        self._guest = Guest(read_module(MODULES / "probe.wasm"), "probe.wasm", self.both.destination)
        self._guest.call("rb_open", OpenContext(JsonConfig({}), "probe", "1"), OpenInfo)

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        self.both.source.emit_batch(batch)
        assert self._guest.call("rb_run_write", self.both.run.stream, WriteSummary).records_written == batch.num_rows
        (stored,) = self.both.state.values.values()
        return read_batch(stored)


class Writing:
    """The source `probe`, which emits the batches of its config."""

    def __init__(self) -> None:
        self.both = OneStream()
        self._guest = Guest(read_module(MODULES / "probe.wasm"), "probe.wasm", self.both.source)

    def run(self, *columns: dict[str, Any]) -> ReadSummary:
        self._guest.call("rb_open", OpenContext(JsonConfig({"batches": [columns]}), "probe", "1"), OpenInfo)
        return self._guest.call("rb_run_read", self.both.run.stream, ReadSummary)

    def __call__(self, *columns: dict[str, Any]) -> pa.RecordBatch:
        self.run(*columns)
        found = self.both.destination.next_batch()
        assert isinstance(found, pa.RecordBatch)
        return found


@pytest.fixture(scope="module")
def reading() -> Reading:
    return Reading()


@pytest.fixture(scope="module")
def writing() -> Writing:
    return Writing()


@given(batch=batches())
def test_pyarrow_batch_is_read_and_written_unchanged(reading: Reading, batch: pa.RecordBatch) -> None:
    found = reading(batch)
    assert found.schema == batch.schema and found.equals(batch)


@given(batch=batches())
def test_pyarrow_reads_a_batch_that_a_module_made_of_values(writing: Writing, batch: pa.RecordBatch) -> None:
    names = {kind: name for name, (kind, _) in TYPES.items()}
    columns = [
        {"name": field.name, "type": names[field.type], "required": not field.nullable, "values": column.to_pylist()}
        for field, column in zip(batch.schema, batch.columns, strict=True)
    ]
    found = writing(*columns)
    assert found.schema == batch.schema and found.equals(batch)


def test_slice_and_all_nulls_are_read(reading: Reading) -> None:
    whole = pa.record_batch(
        {"a": pa.array(["x", None, "ü🦀", "", "z"]), "b": pa.array([True, None, False, True, True])}
    )
    assert reading(whole.slice(1, 3)).equals(whole.slice(1, 3))
    nulls = pa.record_batch({"a": pa.array([None] * 9, pa.string()), "n": pa.array([None] * 9, pa.int64())})
    assert reading(nulls).equals(nulls)


def test_nan_infinities_and_minus_zero_are_read(reading: Reading) -> None:
    found = reading(pa.record_batch({"f": pa.array([float("nan"), float("inf"), float("-inf"), -0.0])}))
    assert [str(each) for each in found.column(0).to_pylist()] == ["nan", "inf", "-inf", "-0.0"]


OTHERS = {
    "null": pa.nulls(3),
    "int32": pa.array([1, None, 3], pa.int32()),
    "uint64": pa.array([1, None, 3], pa.uint64()),
    "float32": pa.array([1.0, None, 3.0], pa.float32()),
    "decimal": pa.array([None, 1, 2], pa.decimal128(10, 2)),
    "timestamp": pa.array([datetime.datetime(2020, 1, 1), None, None]),
    "date": pa.array([datetime.date(2020, 1, 1), None, None]),
    "binary": pa.array([b"a", None, b""]),
    "fixed binary": pa.array([b"ab", None, b"cd"], pa.binary(2)),
    "large text": pa.array(["a", None, ""], pa.large_string()),
    "text view": pa.array(["a", None, "longer than twelve bytes"], pa.string_view()),
    "list": pa.array([["a"], None, []]),
    "large list": pa.array([["a"], None, []], pa.large_list(pa.string())),
    "fixed list": pa.array([[1, 2], None, [3, 4]], pa.list_(pa.int64(), 2)),
    "list view": pa.array([[1], None, []], pa.list_view(pa.int64())),
    "struct": pa.array([{"x": 1, "y": "a"}, None, {"x": 2, "y": None}]),
    "map": pa.array([[("k", 1)], None, []], pa.map_(pa.string(), pa.int64())),
    "dictionary": pa.array(["a", None, "a"]).dictionary_encode(),
    "sparse union": pa.UnionArray.from_sparse(
        pa.array([0, 1, 0], pa.int8()), [pa.array([1, 2, 3]), pa.array(["a", "b", "c"])]
    ),
    "dense union": pa.UnionArray.from_dense(
        pa.array([0, 1, 0], pa.int8()), pa.array([0, 0, 1], pa.int32()), [pa.array([1, 2]), pa.array(["a"])]
    ),
    "runs": pa.RunEndEncodedArray.from_arrays(pa.array([2, 3], pa.int32()), pa.array(["a", "b"])),
    "nested": pa.array([[{"a": [["x"]]}], None, []]),
}


@pytest.mark.parametrize("name", OTHERS)
def test_columns_of_unsupported_types_are_skipped_and_later_ones_are_read(reading: Reading, name: str) -> None:
    found = reading(
        pa.record_batch({"before": pa.array([1, 2, 3]), "x": OTHERS[name], "after": pa.array(["a", "", "ü"])})
    )
    assert found.column("before").to_pylist() == [1, 2, 3]
    assert found.column("after").to_pylist() == ["a", "", "ü"]
    assert found.column("x").to_pylist()[0].startswith("type ")


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ([], "at least one column"),
        ([{"values": [1]}, {"values": [1, 2]}], "expected 1 rows as in the first column, found 2"),
        ([{"values": [1, None], "required": True}], "expected no nulls in a required column, found 1"),
        ([{"values": []}], "at least one row"),
    ],
)
def test_columns_that_do_not_form_a_batch_are_refused(
    writing: Writing, columns: list[dict[str, Any]], message: str
) -> None:
    with pytest.raises(ConnectorError, match=message):
        writing.run(*({"name": "n", "type": "int64"} | each for each in columns))


class Damaged(Reading):
    """Hands the module bytes that are no batch of the host's."""

    def read(self, data: bytes) -> str:
        """The code of the error; empty if it was read."""
        self._guest.functions._pending = data
        try:
            self._guest.call("rb_run_write", self.both.run.stream, WriteSummary)
        except ConnectorError as error:
            return error.code
        finally:
            self._guest.functions._pending = None
            self.both.run.delivered += 1
        return ""


@pytest.fixture(scope="module")
def damaged() -> Damaged:
    return Damaged()


SAMPLE = write_batch(pa.record_batch({"n": pa.array([1, None, 3]), "t": pa.array(["a", None, "üü"]), "b": [True] * 3}))


@given(place=st.integers(0, len(SAMPLE) - 1), byte=st.integers(0, 255))
def test_damaged_batch_is_read_or_refused_without_a_trap(damaged: Damaged, place: int, byte: int) -> None:
    assert damaged.read(SAMPLE[:place] + bytes([byte]) + SAMPLE[place + 1 :]) in ("", "BAD_BATCH", "BAD_COLUMN")


@given(length=st.integers(1, len(SAMPLE) - 1))
def test_truncated_batch_is_refused(damaged: Damaged, length: int) -> None:
    # Behind the body there is only the end of the stream.
    assert damaged.read(SAMPLE[:length]) == ("" if length >= len(SAMPLE) - 8 else "BAD_BATCH")


@given(data=st.binary(min_size=1, max_size=64))
def test_garbage_is_refused(damaged: Damaged, data: bytes) -> None:
    assert damaged.read(data) == "BAD_BATCH"
