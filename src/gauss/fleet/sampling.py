"""Samples of a topic's records: from the beginning, the end, or a time."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from typing import NamedTuple

from gauss.clients.kafka.admin import Admin
from gauss.clients.kafka.plain_reader import PlainReader
from gauss.clients.kafka.reading import Bounds, Range
from gauss.clients.kafka.settings import KafkaSettings

MOST_BYTES = 8 << 20
"""Of all samples together."""
MOST_PARTITIONS = 32
"""Samples are of at most so many partitions, since each needs a consumer of its own."""
AT_ONCE = 8
WIDER = 4
"""How many more offsets are looked at if too few of the last ones are records."""


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
    if isinstance(start, int):
        at = admin.at_time(topic, partitions, start)
        first = {number: ends[number] if at.get(number) is None else int(at[number] or 0) for number in partitions}
    full = [number for number in partitions if first[number] < ends[number]]
    chosen = full[:: -(-len(full) // MOST_PARTITIONS)] if full else []
    share = -(-limit // max(len(chosen), 1))
    most = MOST_BYTES // max(len(chosen), 1)
    read = _newest if start == "end" else _oldest
    ranges = [Range(topic, number, first[number], ends[number], found.topic_id) for number in chosen]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        parts = list(pool.map(lambda wanted: read(settings, wanted, share, most), ranges))
    samples = sorted((each for part in parts for each in part), key=lambda each: (each.ts_ms, *each[:2]))
    return samples[:limit] if start != "end" else samples[-limit:]


def _oldest(settings: KafkaSettings, wanted: Range, share: int, most_bytes: int) -> list[Sample]:
    """The first records of a range."""
    found: list[Sample] = []
    size = 0
    with closing(_records(settings, wanted, share)) as records:
        for each in records:
            size += len(each.data or b"")
            if size > most_bytes and found:
                break
            found.append(each)
            if len(found) == share:
                break
    return found


def _newest(settings: KafkaSettings, wanted: Range, share: int, most_bytes: int) -> list[Sample]:
    """The last records of a range. Not every offset is a record: transactions leave markers, compaction leaves gaps."""
    span = share
    while True:
        start = max(wanted.start, wanted.end - span)
        found: deque[Sample] = deque(maxlen=share)
        size = seen = 0
        for each in _records(settings, replace(wanted, start=start), share):
            if len(found) == share:
                size -= len(found[0].data or b"")
            found.append(each)
            seen += 1
            size += len(each.data or b"")
            while size > most_bytes and len(found) > 1:
                size -= len(found.popleft().data or b"")
        if seen >= share or start == wanted.start:
            return list(found)
        span *= WIDER


def _records(settings: KafkaSettings, wanted: Range, share: int) -> Generator[Sample, None, None]:
    bounds = Bounds(rows=min(share, 100), bytes=1 << 20)
    with closing(PlainReader(settings).read(wanted, bounds)) as batches:
        for batch in batches:
            for row in batch.select(["offset", "ts_ms", "data"]).to_pylist():
                yield Sample(wanted.partition, row["offset"], row["ts_ms"], row["data"])
