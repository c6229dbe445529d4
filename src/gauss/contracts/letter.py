"""Dead letters: records that cannot be framed, decoded, mapped, encoded or stored, with their origin."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from gauss.model.details import capped

if TYPE_CHECKING:
    import pyarrow as pa

MAX_DATA_BYTES = 1 << 20


class Letter(msgspec.Struct):
    """A dead letter. In JSON `data` is base64. Detail and data are truncated to their maximum sizes when it is
    created."""

    reason: str = "unknown"
    """A fixed code: `too_long`, `truncated`, `bad_frame`, `bad_json`, `wrong_type`, …"""
    detail: str = ""
    stage: str = ""
    """`frame`, `decode`, `map`, `store`, `encode`, `time` or `transform`"""
    processor: str = ""
    data: bytes = b""
    """The record's bytes, at most 1 MiB of them."""
    topic: str = ""
    inc: int = 0
    offset: int = -1
    ts_ms: int = 0
    column: str = ""
    truncated: int | msgspec.UnsetType = msgspec.UNSET
    """The record's length, if `data` was cut."""
    attempts: int = 1
    """Number of failed attempts of its processor."""
    partition: int | msgspec.UnsetType = msgspec.UNSET
    """The partition of the topic, if not 0."""
    number: int | msgspec.UnsetType = msgspec.UNSET
    """Its number among all dead letters, if that is no longer its offset in their topic: it stays when others are
    discarded."""
    from_stage: str | msgspec.UnsetType = msgspec.UNSET
    """If the record is published together with the letter: the stage to whose first record `offset` is relative."""

    def __post_init__(self) -> None:
        self.detail = capped(self.detail)
        self.cut(MAX_DATA_BYTES)

    def cut(self, most: int) -> None:
        """Truncates the record to at most `most` bytes."""
        if len(self.data) > most:
            self.truncated = self.truncated or len(self.data)
            self.data = self.data[:most]


def too_large(records: pa.RecordBatch, topic: str, *, inc: int = 0) -> list[Letter]:
    """Letters of records that the outside system of a topic refuses because of their size."""
    letters = []
    for row in records.to_pylist():
        data = row["data"] or b""
        detail = f"its {len(data)} bytes are more than topic {topic} accepts in one record"
        letters.append(Letter("too_large", detail, "store", "", data, topic, inc, ts_ms=row.get("ts_ms") or 0))
    return letters
