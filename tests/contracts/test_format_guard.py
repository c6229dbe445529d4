"""An error of a decoder over a batch affects only the records that caused it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from gauss.contracts.format import BadRecord, Decoded, Format
from gauss.contracts.format_batch import batched, encode_good
from gauss.model.details import MOST_DETAIL_BYTES
from gauss.model.errors import ConfigError, Unavailable

FIELDS = pa.schema([("n", pa.int64())])


def panic() -> BaseException:
    """A Rust panic as it reaches Python: a BaseException."""
    made: BaseException = type("PanicException", (BaseException,), {"__module__": "pyo3_runtime"})("out of bounds")
    return made


class Numbers:
    """Decodes decimal numbers by batch; raises `error` if the batch contains `!`."""

    def __init__(self, error: BaseException) -> None:
        self._error = error
        self.calls = 0

    def schema(self) -> None:
        return None

    def decode(self, data: bytes) -> dict[str, Any]:
        if data == b"!":
            raise self._error
        return {"n": int(data)}

    def decode_batch(self, data: pa.BinaryArray, fields: pa.Schema) -> Decoded:
        self.calls += 1
        found = data.to_pylist()
        if b"!" in found:
            raise self._error
        good = [index for index, record in enumerate(found) if record != b"bad"]
        bad = [(index, "no_number", "bad") for index, record in enumerate(found) if record == b"bad"]
        rows = pa.RecordBatch.from_arrays([pa.array([int(found[index]) for index in good], pa.int64())], schema=fields)
        return Decoded(rows, np.array(good, np.int64), bad)

    def encode(self, row: dict[str, Any]) -> bytes:
        return str(row["n"]).encode()

    def encode_batch(self, rows: pa.RecordBatch) -> pa.BinaryArray:
        values = rows.column(0).to_pylist()
        if 13 in values:
            raise self._error
        return pa.array([str(value).encode() for value in values], pa.binary())


ERRORS = [
    *[KeyError("type"), TypeError("no"), ValueError("no"), OverflowError("no"), RecursionError("deep")],
    *[MemoryError("too much"), pa.ArrowInvalid("no"), OSError("no"), ConfigError("a schema of the record"), panic()],
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_what_a_batch_raises_costs_the_culprits_alone(error: BaseException) -> None:
    inner = Numbers(error)
    records = [str(index).encode() for index in range(1000)]
    records[17], records[500], records[999] = b"!", b"bad", b"!"
    decoded = batched(inner).decode_batch(pa.array(records, pa.binary()), FIELDS)
    kept = [index for index in range(1000) if index not in (17, 500, 999)]
    assert decoded.rows.column(0).to_pylist() == kept
    assert decoded.good.tolist() == kept
    assert [(index, reason) for index, reason, _ in decoded.bad] == [
        *[(17, "undecodable"), (500, "no_number"), (999, "undecodable")]
    ]
    assert str(error).strip("'") in decoded.bad[0][2]
    assert inner.calls < 60, "a batch is halved, not decoded record by record"


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_one_record_raises_nothing_but_a_value_error(error: BaseException) -> None:
    with pytest.raises(ValueError):
        _raise(batched(Numbers(error)))


def _raise(format_: Format) -> None:
    format_.decode(b"!")


@pytest.mark.parametrize("error", [Unavailable("the registry is away"), KeyboardInterrupt(), SystemExit()])
def test_what_no_record_has_caused_is_raised(error: BaseException) -> None:
    with pytest.raises(type(error)):
        batched(Numbers(error)).decode_batch(pa.array([b"1", b"!"], pa.binary()), FIELDS)


@pytest.mark.parametrize("error", [KeyError("n"), panic(), pa.ArrowInvalid("no")], ids=lambda e: type(e).__name__)
def test_what_encoding_a_batch_raises_costs_the_culprits_alone(error: BaseException) -> None:
    rows = pa.RecordBatch.from_arrays([pa.array([1, 13, 2])], schema=FIELDS)
    made = encode_good(batched(Numbers(error)), rows)
    assert made.records.to_pylist() == [b"1", b"2"]
    assert made.good.tolist() == [0, 2]
    assert [(index, reason) for index, reason, _ in made.bad] == [(1, "unencodable")]


def test_an_error_that_no_row_causes_alone_is_raised() -> None:
    class Together(Numbers):
        def encode_batch(self, rows: pa.RecordBatch) -> pa.BinaryArray:
            if len(rows) > 1:
                raise KeyError("n")
            return super().encode_batch(rows)

    with pytest.raises(KeyError):
        encode_good(batched(Together(KeyError("n"))), pa.RecordBatch.from_arrays([pa.array([1, 2])], schema=FIELDS))


def test_rows_without_columns_are_counted() -> None:
    class Counting(Numbers):
        def decode_batch(self, data: pa.BinaryArray, fields: pa.Schema) -> Decoded:
            decoded = super().decode_batch(data, FIELDS)
            return decoded._replace(rows=decoded.rows.select(fields.names))

    decoded = batched(Counting(KeyError())).decode_batch(pa.array([b"1", b"!", b"2"], pa.binary()), pa.schema([]))
    assert decoded.rows.num_rows == 2
    assert decoded.good.tolist() == [0, 2]


def test_the_detail_of_a_huge_error_is_cut_and_tells_its_size() -> None:
    format_ = batched(Numbers(KeyError("é" * 100_000)))
    (_, _, detail), *_ = format_.decode_batch(pa.array([b"!"], pa.binary()), FIELDS).bad
    assert detail.startswith("KeyError: 'éé")
    assert detail.endswith("… (200012 bytes)")
    assert len(detail.encode()) < MOST_DETAIL_BYTES + 40
    assert len(BadRecord("wrong_type", "x" * 10_000_000).detail) < MOST_DETAIL_BYTES + 40
    assert BadRecord("wrong_type", "short").detail == "short"


def test_a_format_keeps_what_it_has_beside_the_contract() -> None:
    class Merging(Numbers):
        def merge_batch(self, rest: pa.BinaryArray, rows: pa.RecordBatch) -> pa.BinaryArray:
            return rest if len(rows) else self.encode_batch(rows)

    assert not hasattr(batched(Numbers(KeyError())), "merge_batch")
    assert not hasattr(batched(Numbers(KeyError())), "decode_rows")
    assert hasattr(batched(Merging(KeyError())), "merge_batch")
