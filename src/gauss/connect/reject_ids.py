"""Ids of rejected rows. A row that is read again, after a retry or a kill, gets the same id."""

from __future__ import annotations

import hashlib
from collections import Counter
from typing import Any

import pyarrow as pa

from gauss.connect.arrow_ipc import write_batch
from gauss.contracts.connector.connector import partition_key
from gauss.contracts.connector.cursor import CursorValue
from gauss.contracts.connector.json_form import encode


class RejectIds:
    """Ids by the last position that a run can go on from, and the content of the row behind it. Equal rows are told
    apart by counting them."""

    def __init__(self, partition: Any, cursor: CursorValue | None) -> None:
        self._partition = partition_key(partition).encode()
        self.move(cursor)

    def move(self, cursor: CursorValue | None) -> None:
        """The rows that follow are read again only by a run that starts at this cursor or before it."""
        self._cursor = b"" if cursor is None else encode(cursor)
        self._seen: Counter[bytes] = Counter()

    def of(self, rows: pa.RecordBatch) -> list[str]:
        """An id for each row."""
        # A slice would have bits of its neighbours.
        return [self._id(write_batch(rows.take(pa.array([place])))) for place in range(rows.num_rows)]

    def _id(self, row: bytes) -> str:
        self._seen[row_hash := hashlib.sha256(row).digest()] += 1
        number = self._seen[row_hash].to_bytes(8, "big")
        return digest(self._partition, self._cursor, row_hash, number)


def digest(*parts: bytes) -> str:
    """A hash of parts, none of which can be taken for two."""
    whole = hashlib.sha256()
    for part in parts:
        whole.update(len(part).to_bytes(8, "big"))
        whole.update(part)
    return whole.hexdigest()[:32]
