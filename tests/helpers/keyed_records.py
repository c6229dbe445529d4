"""Records with keys and headers, as a topic of Kafka has them."""

from __future__ import annotations

import pyarrow as pa

from gauss.model.batch import KEYED_SCHEMA
from helpers.reference_provider import ReferenceProvider

Headers = list[dict[str, str | bytes | None]]


def key_of(number: int) -> bytes | None:
    """Every third record has no key; that of the next one is empty."""
    return (None, b"", b"k%d" % number)[number % 3]


def headers_of(number: int) -> Headers:
    """Names may repeat and values may be null."""
    headers: Headers = [{"key": "h", "value": b"%d" % number}, {"key": "h", "value": None}]
    return headers[: number % 3]


def keyed_batch(*data: bytes, first: int = 0) -> pa.RecordBatch:
    """The record n has the key `key_of(n)`, the headers `headers_of(n)` and the time 10 · n."""
    numbers = range(first, first + len(data))
    rows = [
        {"offset": n, "ts_ms": 10 * n, "data": each, "key": key_of(n), "headers": headers_of(n)}
        for n, each in zip(numbers, data, strict=True)
    ]
    return pa.RecordBatch.from_pylist(rows, KEYED_SCHEMA)


class KeyedProvider(ReferenceProvider):
    """A provider of such records."""

    def candidates(self) -> pa.Schema:
        return KEYED_SCHEMA

    def batch(self, records: list[tuple[int, bytes]], offsets: range) -> pa.RecordBatch:
        return keyed_batch(*(records[offset][1] for offset in offsets), first=offsets.start)
