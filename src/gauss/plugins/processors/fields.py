"""Fields by dotted name, as in expressions: `order.id` is `$.order.id` in a format and a struct field on Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gauss.model.names import DATA_COLUMN, ROW_COLUMN, TS_MS_COLUMN

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column

    from gauss.contracts.format import FieldType


def spark_column(name: str) -> Column:
    """A field of a DataFrame: nested objects are structs, a field of a spread array has its path as its name."""
    from pyspark.sql import functions as F

    if "[*]" in name:
        return F.col(f"`$.{name}`")
    return F.col(".".join(f"`{part}`" for part in name.split(".")))


def plain(name: str) -> str:
    """`order.id` for the format's `$.order.id`."""
    return name.removeprefix("$.")


def path(name: str) -> str:
    """The format's `$.order.id` for `order.id`."""
    return f"$.{name}" if "." in name and not name.startswith("$.") else name


def is_text(kind: FieldType) -> bool:
    """Whether a field is a string in Arrow and Spark; text that may not be UTF-8 is binary there."""
    return kind.name in ("string", "varchar", "text", "bpchar") and kind.attrs.get("utf8") is not False


def column_name(records: pa.RecordBatch, name: str) -> str:
    """The column of a batch that holds a field: formats may name it `$.id` for `id`."""
    names: list[str] = records.schema.names
    return next(given for given in names if plain(given) == name)


def dotted(records: pa.RecordBatch) -> pa.RecordBatch:
    """The same columns under dotted names."""
    return records.rename_columns([plain(name) for name in records.schema.names])


def passed_on(records: pa.RecordBatch) -> pa.RecordBatch:
    """The columns of a result that passes records on unchanged."""
    names = records.schema.names
    return records.select([name for name in (TS_MS_COLUMN, DATA_COLUMN, ROW_COLUMN) if name in names])


def selected(records: pa.RecordBatch, keep: pa.BooleanArray) -> pa.RecordBatch:
    """The records to keep, unchanged. If all are kept nothing is copied, as a filter would."""
    passed = passed_on(records)
    return passed if keep.true_count == len(keep) else passed.filter(keep)
