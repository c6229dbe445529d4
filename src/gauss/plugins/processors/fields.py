"""Fields by dotted name, as expressions write them: `order.id` is `$.order.id` of the format, on Spark in a struct."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column

    from gauss.contracts.format import FieldType


def spark_column(name: str) -> Column:
    """A field of a frame; fields of nested objects are struct fields, a spread array keeps its path."""
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
    """Whether a field is text in Arrow and Spark; text that need not be UTF-8 is bytes there."""
    return kind.name in ("string", "varchar", "text", "bpchar") and kind.attrs.get("utf8") is not False


def column_name(records: pa.RecordBatch, name: str) -> str:
    """The name under which a batch has a field: formats may write `$.id` for `id`."""
    names: list[str] = records.schema.names
    return next(given for given in names if plain(given) == name)


def dotted(records: pa.RecordBatch) -> pa.RecordBatch:
    """The same columns under dotted names."""
    return records.rename_columns([plain(name) for name in records.schema.names])
