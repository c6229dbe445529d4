"""Looks up values that a change does not carry: large ones that were left as they are (TOAST).

The value is that of the row as it is now. If a later change has given it another one, that change comes later in the
stream; if the row is gone, its delete does, and the value is null.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gauss.clients.postgres.connect import Connection
from gauss.clients.postgres.quote import identifier
from gauss.contracts.connector.errors import ConnectorError
from gauss.plugins.connectors.postgres.catalog import Column, Relation
from gauss.plugins.connectors.postgres.source_change_rows import ChangeRows

BATCH_BYTES = 4 << 20
"""About as much is looked up at once."""
FIRST_ROWS, MOST_ROWS = 64, 1_000


class ToastLookup:
    """Looks up values of one table by the columns that identify its rows."""

    def __init__(self, relation: Relation, key: Sequence[str], connect: Callable[[], Connection]) -> None:
        self._relation, self._connect = relation, connect
        names = [column.name for column in relation.columns]
        self._key = [names.index(name) for name in key]
        self._most = FIRST_ROWS
        self._connection: Connection | None = None

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    def filled(self, rows: ChangeRows) -> Iterator[ChangeRows]:
        """The rows with all values, in parts whose looked up values are not too large."""
        needed = np.flatnonzero(np.logical_or.reduce(rows.unchanged)) if rows.unchanged else np.zeros(0, np.int64)
        start = 0
        while start < len(rows):
            coming = needed[np.searchsorted(needed, start) :]
            stop = int(coming[self._most]) if len(coming) > self._most else len(rows)
            yield self._fill(rows.part(start, stop))
            start = stop

    def _fill(self, rows: ChangeRows) -> ChangeRows:
        places = [number for number, unsent in enumerate(rows.unchanged) if unsent.any()]
        if not places:
            return rows
        needed = np.flatnonzero(np.logical_or.reduce([rows.unchanged[place] for place in places]))
        found = self._ask(rows, needed, [self._relation.columns[place] for place in places])
        columns, size = list(rows.columns), 0
        for place, values in zip(places, found, strict=True):
            unsent = rows.unchanged[place]
            given = values.filter(pa.array(unsent[needed]))
            size += given.nbytes
            columns[place] = pc.replace_with_mask(columns[place], pa.array(unsent), given)
        self._most = min(max(BATCH_BYTES * len(needed) // max(size, 1), 1), MOST_ROWS)
        return replace(rows, columns=columns)

    def _ask(self, rows: ChangeRows, needed: np.ndarray, wanted: Sequence[Column]) -> list[pa.Array]:
        """The columns of the rows with these numbers, null for those that are gone."""
        if not self._key:
            raise ConnectorError.config(
                "NO_IDENTITY",
                f"{self._relation.name}: a change from before REPLICA IDENTITY FULL does not carry the value of"
                f" {', '.join(column.name for column in wanted)}, and there is no primary key to look it up by",
                hint="add a primary key, or reset the state of the stream, which reads it anew",
            )
        if self._connection is None:
            self._connection = self._connect()
        keys = [self._relation.columns[number] for number in self._key]
        # As the output function writes them; a cast to text may differ from that.
        texts = [_text(f"t.{identifier(column.name)}") for column in wanted]
        names = ", ".join(f"k{place}" for place in range(len(keys)))
        joined = " AND ".join(
            f"t.{identifier(column.name)} = k.k{place}::{column.type_text}" for place, column in enumerate(keys)
        )
        given = ", ".join(["\0"] * len(keys))
        query = (
            f"SELECT k.n - 1, {', '.join(texts)} FROM unnest({given}) WITH ORDINALITY AS k ({names}, n)"
            f" JOIN {self._relation.name.sql} t ON {joined}"
        )
        values = [rows.columns[number].take(pa.array(needed)).cast(pa.string()).to_pylist() for number in self._key]
        found = self._connection.execute(query.replace("%", "%%").replace("\0", "%s::text[]").encode(), values)
        answers: list[list[bytes | None]] = [[None] * len(needed) for _ in wanted]
        for number, *row in found:
            for answer, value in zip(answers, row, strict=True):
                answer[number] = value.encode() if isinstance(value, str) else value
        return [pa.array(answer, pa.binary()) for answer in answers]


def _text(value: str) -> str:
    return f"CASE num_nulls({value}) WHEN 0 THEN format('%s', {value}) END"
