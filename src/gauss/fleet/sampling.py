"""Samples of a topic's records: from the beginning, the end, or a time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from gauss.clients.kafka.admin import Admin
from gauss.clients.kafka.plain_reader import PlainReader
from gauss.clients.kafka.reading import Bounds, Range
from gauss.clients.kafka.settings import KafkaSettings

MOST_BYTES = 8 << 20
"""Of all samples together."""


class Sample(NamedTuple):
    """A record and where it lies."""

    partition: int
    offset: int
    ts_ms: int
    data: bytes | None


def sample(settings: KafkaSettings, topic: str, limit: int, start: str | int = "end") -> list[Sample]:
    """At most `limit` records, from all partitions about equally many. `start`: `beginning`, `end`, or a time in Unix
    milliseconds. Raises NotFound, Unavailable or ConfigError."""
    admin = Admin(settings)
    found = admin.describe(topic)
    partitions = [each.number for each in found.partitions]
    first, ends = admin.earliest(topic, partitions), admin.stable(topic, partitions)
    share = -(-limit // max(len(partitions), 1))
    starts = _starts(admin, topic, (first, ends), start, share)
    samples: list[Sample] = []
    for number in partitions:
        low, high = starts[number], ends[number]
        wanted = Range(topic, number, low, min(high, low + share), found.topic_id)
        samples += _read(settings, wanted, MOST_BYTES // max(len(partitions), 1))
    samples.sort(key=lambda each: (each.ts_ms, each.partition, each.offset))
    return samples[:limit] if start != "end" else samples[-limit:]


def _starts(
    admin: Admin,
    topic: str,
    bounds: tuple[Mapping[int, int], Mapping[int, int]],
    start: str | int,
    share: int,
) -> dict[int, int]:
    first, ends = bounds
    if start == "beginning":
        return dict(first)
    if isinstance(start, int):
        found = admin.at_time(topic, list(ends), start)
        return {number: ends[number] if (at := found.get(number)) is None else at for number in ends}
    return {number: max(first[number], end - share) for number, end in ends.items()}


def _read(settings: KafkaSettings, wanted: Range, most_bytes: int) -> list[Sample]:
    found: list[Sample] = []
    size = 0
    for batch in PlainReader(settings).read(wanted, Bounds(rows=100, bytes=1 << 20)):
        for row in batch.select(["offset", "ts_ms", "data"]).to_pylist():
            data = row["data"]
            size += len(data or b"")
            if size > most_bytes and found:
                return found
            found.append(Sample(wanted.partition, row["offset"], row["ts_ms"], data))
    return found
