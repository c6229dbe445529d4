"""The canonical hash of Root(V): equal for equal records, however they are batched, stored or read."""

from __future__ import annotations

import hashlib

import numpy as np
import pyarrow as pa

from gauss.contracts.cursor import Code, Program, Provider, Seq, Step
from gauss.model.batch import packed, value_lengths
from gauss.model.errors import Collected

STEP = Step(limit=65_536, max_bytes=4 << 20)


class RootHash:
    """An incremental digest. Validity, lengths and values of each column are hashed separately, so that batch
    boundaries have no influence."""

    def __init__(self, schema: pa.Schema) -> None:
        self._columns = [
            [hashlib.blake2b(f"{field.name} {field.type} {part}".encode()) for part in ("valid", "lengths", "values")]
            for field in schema
        ]

    def update(self, batch: pa.RecordBatch) -> None:
        for (valid, lengths, values), given in zip(self._columns, batch.columns, strict=True):
            column = given
            valid.update(column.is_valid().to_numpy(zero_copy_only=False).tobytes())
            if pa.types.is_binary(column.type) or pa.types.is_string(column.type):
                data = column.cast(pa.binary())
                lengths.update(value_lengths(data).astype("<i8").tobytes())
                values.update(packed(data))
            else:
                if column.null_count:
                    column = column.fill_null(False if pa.types.is_boolean(column.type) else 0)
                values.update(np.ascontiguousarray(column.to_numpy(zero_copy_only=False)).tobytes())

    def hexdigest(self) -> str:
        whole = hashlib.blake2b(digest_size=16)
        for parts in self._columns:
            for part in parts:
                whole.update(part.digest())
        return whole.hexdigest()


def root_hash(provider: Provider) -> tuple[int, str]:
    """The current version and the hash of its root; for a log, of the records from its floor."""
    cursor = provider.open(Program(Seq()))
    try:
        found = RootHash(provider.candidates())
        while (code := cursor.next(STEP)) is Code.OK:
            found.update(cursor.read()[1])
        if code is Code.REJECTED:
            raise Collected("records were collected while they were hashed", hint="ask again")
        return cursor.pinned_version, found.hexdigest()
    finally:
        cursor.close()
