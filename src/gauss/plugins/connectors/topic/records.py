"""Records of a topic as rows, and back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from gauss.contracts.connector.errors import ConnectorError
from gauss.contracts.field_types import arrow_type
from gauss.contracts.format import BadRows, SourceField
from gauss.contracts.format_batch import encode_good
from gauss.model.errors import GaussError

if TYPE_CHECKING:
    from gauss.contracts.format_guard import GuardedFormat

RAW = pa.schema([pa.field("data", pa.binary(), nullable=False), pa.field("ts_ms", pa.int64(), nullable=False)])
"""The columns of a topic without a format that declares fields."""


class Rows(NamedTuple):
    """Rows that were made of records, or the other way round, and what could not be."""

    rows: pa.RecordBatch
    bad: list[tuple[int, ConnectorError]]
    """The index of each bad record with the reason."""


def declared(found: GuardedFormat | None) -> pa.Schema | None:
    """The columns of a format; None if it declares none."""
    schema = None if found is None else found.schema()
    return None if schema is None else pa.schema([_column(each) for each in schema.fields])


def _column(field: SourceField) -> pa.Field:
    """A column. The mark tells the format that it holds values of any type as JSON text."""
    kind = field.field_type
    any_kind = "json" in (kind.name, kind.attrs.get("element"))
    mark = {b"gauss": b"json" if kind.name == "json" else b"json array"} if any_kind else None
    return pa.field(field.name, arrow_type(kind), metadata=mark)


def decoded(found: GuardedFormat, fields: pa.Schema, records: pa.RecordBatch) -> Iterator[Rows]:
    """The rows of records (offset, ts_ms, data); several batches if they are too large for one."""
    for part in found.decode_parts(records.column("data"), fields):
        bad = [
            (part.first + index, ConnectorError.data("BAD_RECORD", f"{reason}: {detail}"))
            for index, reason, detail in part.decoded.bad
        ]
        rows = pa.RecordBatch.from_arrays(part.decoded.rows.columns, schema=fields.remove_metadata())
        yield Rows(rows, bad)


class Encoder:
    """Makes records of rows, in the format of a topic."""

    def __init__(self, topic: str, found: GuardedFormat | None) -> None:
        self._topic, self._format = topic, found
        self._fields = declared(found)

    def encode(self, rows: pa.RecordBatch) -> tuple[pa.Array, list[tuple[int, ConnectorError]]]:
        """The records, and the index of each row that can't be one, with the reason."""
        if self._format is None:
            return self._raw(rows)
        if self._fields is not None:
            rows = self._marked(rows, self._fields)
        try:
            made = encode_good(self._format, rows)
        except (GaussError, BadRows) as error:
            raise ConnectorError.schema(
                "NOT_ENCODABLE", f'rows can\'t be written in the format of topic "{self._topic}": {error}'
            ) from error
        bad = [(row, ConnectorError.data("BAD_ROW", f"{reason}: {detail}")) for row, reason, detail in made.bad]
        return made.records, bad

    def _raw(self, rows: pa.RecordBatch) -> tuple[pa.Array, list[tuple[int, ConnectorError]]]:
        if "data" not in rows.schema.names:
            raise no_format(self._topic, rows.schema.names)
        data = rows.column("data").cast(pa.binary())
        if not data.null_count:
            return data, []
        missing = ConnectorError.data("NULL", "data: null, but a record needs a value")
        return data.drop_null(), [(row, missing) for row in data.is_null().to_numpy(False).nonzero()[0].tolist()]

    @staticmethod
    def _marked(rows: pa.RecordBatch, fields: pa.Schema) -> pa.RecordBatch:
        """Rows with all columns of the format in its order; absent ones are null."""
        columns = [
            rows.column(each.name).cast(each.type) if each.name in rows.schema.names else pa.nulls(len(rows), each.type)
            for each in fields
        ]
        return pa.RecordBatch.from_arrays(columns, schema=fields)


def no_format(topic: str, columns: list[str]) -> ConnectorError:
    """The error of rows for a topic without a format."""
    return ConnectorError.schema(
        "NO_FORMAT",
        f'topic "{topic}" has no format: expected one column "data", found {", ".join(columns)}',
        hint="name a format in a processor that reads or writes the topic, or make `data` by a transform",
    )
