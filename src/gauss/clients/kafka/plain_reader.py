"""Reads ranges of partitions by `Consumer.consume`: a Python object per record, the reference for `range_reader.py`."""

from __future__ import annotations

from collections.abc import Generator
from threading import Event
from typing import cast

import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from gauss.clients.kafka.errors import ConnectionErrors, OffsetOutOfRange, sort_error, sorted_errors
from gauss.clients.kafka.reading import (
    DEFAULT_BOUNDS,
    IGNORED,
    Bounds,
    Progress,
    Range,
    Watermarks,
    out_of_range,
    reader_conf,
)
from gauss.clients.kafka.record_batches import Row, plain_batch
from gauss.clients.kafka.settings import KafkaSettings
from gauss.model.errors import Unavailable

QUEUE_BYTES = 8 << 20
TAKEN = 10_000
WAIT_SECONDS = 0.01


class PlainReader:
    """A `RangeReader` with a consumer of its own for each range."""

    def __init__(self, settings: KafkaSettings, *, queue_bytes: int = QUEUE_BYTES) -> None:
        self._settings = settings
        self._conf = reader_conf(settings, queue_bytes=queue_bytes)

    def read(
        self, wanted: Range, bounds: Bounds = DEFAULT_BOUNDS, stop: Event | None = None
    ) -> Generator[pa.RecordBatch, None, None]:
        if wanted.start >= wanted.end:
            return
        errors = ConnectionErrors()
        with sorted_errors(str(wanted)):
            consumer = Consumer({**self._conf, "error_cb": errors.on_error})

        def watermarks() -> tuple[int, int]:
            partition = TopicPartition(wanted.topic, wanted.partition)
            with sorted_errors(str(wanted)):
                return consumer.get_watermark_offsets(partition, self._settings.request_timeout / 1000)

        progress = Progress(wanted, self._settings, errors)
        rows: list[Row] = []
        size, position = 0, wanted.start
        try:
            consumer.assign([TopicPartition(wanted.topic, wanted.partition, wanted.start)])
            while position < wanted.end and not (stop and stop.is_set()):
                messages = consumer.consume(min(TAKEN, wanted.end - position), WAIT_SECONDS)
                if not messages:
                    progress.at(position)
                for message in messages:
                    if error := message.error():
                        position = max(position, _position_of(error, message, wanted, errors, watermarks))
                        progress.at(position)
                        continue
                    row, bytes_ = _row(message)
                    position = row[0] + 1
                    if row[0] >= wanted.end:
                        break
                    if rows and (len(rows) == bounds.rows or size + bytes_ > bounds.bytes):
                        yield plain_batch(rows)
                        rows, size = [], 0
                    rows.append(row)
                    size += bytes_
            if rows and position >= wanted.end:
                yield plain_batch(rows)
        finally:
            consumer.close()


def _position_of(
    error: KafkaError, message: Message, wanted: Range, errors: ConnectionErrors, watermarks: Watermarks
) -> int:
    """The position that the end of a partition carries; -1 for an error that librdkafka tries to overcome."""
    if error.code() == KafkaError._PARTITION_EOF:
        return message.offset() or 0
    if error.code() in IGNORED:
        return -1
    found = sort_error(error, str(wanted))
    if isinstance(found, OffsetOutOfRange):
        raise out_of_range(wanted, watermarks)
    if not isinstance(found, Unavailable):
        raise found
    errors.on_error(error)
    return -1


def _row(message: Message) -> tuple[Row, int]:
    """The record and its bytes."""
    data, key = message.value(), message.key()
    pairs = cast(list[tuple[str, bytes | None]], message.headers() or [])
    size = len(data or b"") + len(key or b"") + sum(len(name.encode()) + len(value or b"") for name, value in pairs)
    return (message.offset() or 0, message.timestamp()[1], data, key, pairs), size
