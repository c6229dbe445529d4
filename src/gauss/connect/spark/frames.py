"""Rows of a stream as columns of a DataFrame, and back.

Types that Spark lacks become text. What a field's metadata says of its type in the source's system is kept for columns
that a query only passes on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from gauss.contracts.connector.errors import ConnectorError

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_METADATA = "gauss.arrow"
_WIDER = {pa.uint8(): pa.int16(), pa.uint16(): pa.int32(), pa.uint32(): pa.int64(), pa.uint64(): pa.decimal128(20, 0)}


def spark_schema(schema: pa.Schema) -> StructType:
    """The columns of a DataFrame with the rows of a stream; raises ConnectorError."""
    from pyspark.sql.pandas.types import from_arrow_type
    from pyspark.sql.types import StructField, StructType

    fields = []
    for field in schema:
        kept = {key.decode(): value.decode() for key, value in (field.metadata or {}).items()}
        kind = from_arrow_type(_held(field), prefer_timestamp_ntz=True)
        fields.append(StructField(field.name, kind, field.nullable, {_METADATA: kept} if kept else None))
    return StructType(fields)


def as_spark(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The rows in the types that Spark has."""
    columns = []
    for field, column in zip(batch.schema, batch.columns, strict=True):
        plain = column.storage if isinstance(column, pa.ExtensionArray) else column
        columns.append(plain.cast(_held(field)))
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def arrow_schema_of(made: StructType, source: pa.Schema) -> pa.Schema:
    """The columns of a query's result. `source`: those of its input."""
    from pyspark.sql.pandas.types import to_arrow_schema

    originals = {field.name: field for field in source}
    fields = []
    for field, said in zip(to_arrow_schema(made), made, strict=True):
        kept = said.metadata.get(_METADATA)
        original = originals.get(field.name)
        if kept and original is not None and _held(original) == field.type:
            fields.append(field.with_metadata(kept))
        else:
            fields.append(field)
    return pa.schema(fields)


def _held(field: pa.Field) -> pa.DataType:
    """The Arrow type in which Spark takes a column."""
    from pyspark.errors import PySparkTypeError
    from pyspark.sql.pandas.types import from_arrow_type, to_arrow_type

    kind = field.type.storage_type if isinstance(field.type, pa.ExtensionType) else field.type
    kind = _WIDER.get(kind, kind)
    try:
        return to_arrow_type(from_arrow_type(kind, prefer_timestamp_ntz=True))
    except PySparkTypeError:
        pass
    if not _is_castable(kind):
        raise ConnectorError.config(
            "NO_SPARK_TYPE", f"column {field.name}: Spark has no type for {field.type}", hint="leave the column out"
        )
    return pa.string()


def _is_castable(kind: pa.DataType) -> bool:
    try:
        pa.nulls(0, kind).cast(pa.string())
    except pa.ArrowNotImplementedError:
        return False
    return True
