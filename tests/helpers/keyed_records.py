"""Records with keys and headers, as in a Kafka topic."""

from __future__ import annotations

import pyarrow as pa

from gauss.model.batch import KEYED_SCHEMA
from helpers.reference_provider import ReferenceProvider

Headers = list[dict[str, str | bytes | None]]


def key_of(number: int) -> bytes | None:
    """The key of record n: null, empty or `kN`, in turn."""
    return (None, b"", b"k%d" % number)[number % 3]


def headers_of(number: int) -> Headers:
    """The headers of record n: up to two of the same name, one with a null value."""
    headers: Headers = [{"key": "h", "value": b"%d" % number}, {"key": "h", "value": None}]
    return headers[: number % 3]


def keyed_batch(*data: bytes, first: int = 0) -> pa.RecordBatch:
    """A batch whose record n has `key_of(n)`, `headers_of(n)` and time 10 · n."""
    numbers = range(first, first + len(data))
    rows = [
        {"offset": n, "ts_ms": 10 * n, "data": each, "key": key_of(n), "headers": headers_of(n)}
        for n, each in zip(numbers, data, strict=True)
    ]
    return pa.RecordBatch.from_pylist(rows, KEYED_SCHEMA)


class KeyedProvider(ReferenceProvider):
    """A provider of keyed records."""

    def candidates(self) -> pa.Schema:
        return KEYED_SCHEMA

    def batch(self, records: list[tuple[int, bytes]], offsets: range) -> pa.RecordBatch:
        return keyed_batch(*(records[offset][1] for offset in offsets), first=offsets.start)
