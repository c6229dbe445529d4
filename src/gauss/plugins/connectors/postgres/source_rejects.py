"""Rows that can't be read, as they are shown in dead letters: values without an Arrow value are text."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from gauss.contracts.connector.errors import ConnectorError
from gauss.contracts.connector.host import Host
from gauss.plugins.connectors.postgres.catalog import Column
from gauss.plugins.connectors.postgres.source_decode import DAY_US, column, locate
from gauss.plugins.processors.pg_source.copy_stream import CopyRows

_NUMERIC_SIGNS = {0xC000: "NaN", 0xD000: "Infinity", 0xF000: "-Infinity"}


def no_value(row: CopyRows, columns: Sequence[Column], place: int) -> ConnectorError:
    """The error of a row whose column at `place` has no Arrow value."""
    found, value = columns[place], locate(row, len(columns))[place]
    piece = row.body[value.starts[0] : value.starts[0] + value.lengths[0]].tobytes()
    return _no_value(found, _shown(piece, found.reading.kind))


def no_text_value(column: Column, text: bytes) -> ConnectorError:
    """The same for a value that is given as text."""
    return _no_value(column, text.decode(errors="replace"))


def _no_value(found: Column, shown: str) -> ConnectorError:
    shown = shown if len(shown) <= 100 else f"{shown[:99]}…"
    return ConnectorError.data(
        "NO_ARROW_VALUE",
        f'column "{found.name}" ({found.type_text}): {shown} has no value in Arrow\'s {found.reading.arrow}',
        hint="correct the row, leave the column out by `columns`, or read a view that casts it to text",
        details={"column": found.name},
    )


def reject_row(row: CopyRows, columns: Sequence[Column], host: Host, error: ConnectorError) -> None:
    """Hands one row to the host's policy."""
    arrays: list[pa.Array] = []
    for each, pieces in zip(columns, locate(row, len(columns)), strict=True):
        values, odd = column(pieces, each.reading)
        if odd is not None and odd[0]:
            start, length = int(pieces.starts[0]), int(pieces.lengths[0])
            values = pa.array([_shown(row.body[start : start + length].tobytes(), each.reading.kind)])
        arrays.append(values)
    host.reject(pa.RecordBatch.from_arrays(arrays, names=[each.name for each in columns]), error)


def _shown(piece: bytes, kind: str) -> str:
    """A value without an Arrow value as Postgres writes it; in hexadecimal digits if that is not known."""
    match kind:
        case "timestamp" | "date" | "time":
            number = int.from_bytes(piece, "big", signed=True)
            if number == DAY_US and kind == "time":
                return "24:00:00"
            if kind != "time" and number in (largest := 2 ** (8 * len(piece) - 1) - 1, -largest - 1):
                return "infinity" if number > 0 else "-infinity"
            days = np.datetime64("2000-01-01", "D") + np.timedelta64(number // DAY_US, "D")
            return f"a {kind} on {str(days).removeprefix('+')}"
        case "numeric" if len(piece) >= 8:
            return _NUMERIC_SIGNS.get(int.from_bytes(piece[4:6], "big"), f"\\x{piece.hex()}")
        case "number" | "money" | "decimal":
            return piece.decode(errors="replace")
    return f"\\x{piece.hex()}"
