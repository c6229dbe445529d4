"""Values of a config as columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column

Constant = bool | int | float | str


def literal(value: Constant) -> Column:
    """A constant on Spark."""
    from pyspark.sql import functions as F

    made = F.lit(value)
    return made.cast("bigint") if isinstance(value, int) and not isinstance(value, bool) else made


def repeated(value: Constant, count: int) -> pa.Array:
    """A constant in Arrow."""
    import pyarrow as pa

    return pa.repeat(pa.scalar(value), count)
