"""Guards a format against unexpected exceptions: only the records that cause one become bad.

A batch that raises is retried in halves, down to the single records that raise. These are reported as bad records.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa

from gauss.contracts.decode_budget import OverBudget
from gauss.contracts.format import BadRecord, Decoded, Format, SourceSchema
from gauss.contracts.format_batch import blames_record, empty_rows, verdict
from gauss.model.errors import Rejected

log = logging.getLogger("gauss.formats")

Result = TypeVar("Result")
MOST_JOINED_BYTES = 256 << 20
"""Maximum total bytes of the parts of a batch if they are joined."""


class Part(NamedTuple):
    """A part of a batch: `records` records from index `first`. Indexes in `decoded` are relative to `first`."""

    first: int
    records: int
    decoded: Decoded


class GuardedFormat:
    """Wraps a format. Decoding a record raises nothing but BadRecord."""

    def __init__(self, guarded: Format) -> None:
        self._guarded = guarded
        self._logged: set[type[BaseException]] = set()
        if hasattr(guarded, "decode_rows"):
            decode_rows: Callable[[bytes], list[dict[str, Any]]] = guarded.decode_rows
            self.decode_rows = lambda data: _judged(decode_rows, data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._guarded, name)

    def schema(self) -> SourceSchema | None:
        return self._guarded.schema()

    def decode(self, data: bytes) -> dict[str, Any]:
        return _judged(self._guarded.decode, data)

    def encode(self, row: dict[str, Any]) -> bytes:
        return self._guarded.encode(row)

    def encode_batch(self, rows: pa.RecordBatch) -> pa.BinaryArray:
        return self._guarded.encode_batch(rows)

    def decode_batch(self, data: pa.BinaryArray, fields: pa.Schema) -> Decoded:
        found, size = [], 0
        for part in self.decode_parts(data, fields):
            found.append(part)
            size += part.decoded.rows.nbytes
            if len(found) > 1 and size > MOST_JOINED_BYTES:
                raise Rejected(
                    f"{len(data)} records take more than {MOST_JOINED_BYTES} bytes once they are decoded",
                    hint="read fewer records at a time",
                )
        return _joined(found, fields)

    def decode_parts(self, data: pa.BinaryArray, fields: pa.Schema, first: int = 0) -> Iterator[Part]:
        """Decodes a batch in one part, or in several if the records are too large together."""
        try:
            yield Part(first, len(data), self._guarded.decode_batch(data, fields))
            return
        except OverBudget:
            if len(data) < 2:
                raise
        except BaseException as error:
            if not len(data) or not blames_record(error):
                raise
            self._tell(error)
            if len(data) == 1:
                none = Decoded(_rows([], fields), np.zeros(0, np.int64), [(0, *verdict(error))])
                yield Part(first, 1, none)
                return
        middle = len(data) // 2
        yield from self.decode_parts(data.slice(0, middle), fields, first)
        yield from self.decode_parts(data.slice(middle), fields, first + middle)

    def _tell(self, error: BaseException) -> None:
        """Logs each kind of error once: the decoder should have raised BadRecord."""
        if type(error) not in self._logged:
            self._logged.add(type(error))
            kind = type(self._guarded).__name__
            log.warning("%s raised %s over a batch; it is decoded in parts", kind, verdict(error)[1])


def _judged(decode: Callable[[bytes], Result], data: bytes) -> Result:
    try:
        return decode(data)
    except ValueError:
        raise
    except BaseException as error:
        if not blames_record(error):
            raise
        raise BadRecord(*verdict(error)) from error


def _joined(parts: list[Part], fields: pa.Schema) -> Decoded:
    """Joins the parts of a batch."""
    if len(parts) == 1:
        return parts[0].decoded
    all_parts = [(part.first, part.decoded) for part in parts]
    return Decoded(
        _rows([decoded.rows for _, decoded in all_parts], fields),
        np.concatenate([decoded.good + first for first, decoded in all_parts]).astype(np.int64),
        [(first + index, reason, why) for first, decoded in all_parts for index, reason, why in decoded.bad],
        any(decoded.spread for _, decoded in all_parts),
    )


def _rows(parts: list[pa.RecordBatch], fields: pa.Schema) -> pa.RecordBatch:
    if not len(fields):  # concat_batches loses the number of rows of batches without columns
        return empty_rows(sum(map(len, parts)))
    if not parts:
        return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in fields], schema=fields)
    same = [pa.RecordBatch.from_arrays(part.columns, schema=fields) for part in parts]
    return pa.concat_batches(same)
