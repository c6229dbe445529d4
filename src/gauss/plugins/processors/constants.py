"""Constants of a config as Arrow columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

Constant = bool | int | float | str


def repeated(value: Constant, count: int) -> pa.Array:
    """A column that holds the constant in every row."""
    import pyarrow as pa

    return pa.repeat(pa.scalar(value), count)
