"""Fields by dotted name, as expressions write them: `order.id` is `$.order.id` of the format, on Spark in a struct."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column


def spark_column(name: str) -> Column:
    """A field of a frame; fields of nested objects are struct fields, a spread array keeps its path."""
    from pyspark.sql import functions as F

    if "[*]" in name:
        return F.col(f"`$.{name}`")
    return F.col(".".join(f"`{part}`" for part in name.split(".")))


def dotted(records: pa.RecordBatch) -> pa.RecordBatch:
    """The same columns under dotted names."""
    return records.rename_columns([name.removeprefix("$.") for name in records.schema.names])
