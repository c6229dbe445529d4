"""What both readers of a partition have in common: the range, the bounds of a batch, the settings of the consumer."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from threading import Event
from typing import Protocol

import pyarrow as pa
from confluent_kafka import KafkaError

from gauss.clients.kafka.admin import Admin
from gauss.clients.kafka.errors import ConnectionErrors, OffsetOutOfRange
from gauss.clients.kafka.settings import KafkaSettings, client_conf
from gauss.model.errors import NotFound, Unavailable

_ASK_SECONDS = 1.0
IGNORED = {KafkaError.GROUP_AUTHORIZATION_FAILED}
"""Errors of the group's coordinator, which a reader of ranges does not need."""
GROUP = "gauss"
"""librdkafka asks for a group even if a client is not a member of one."""


@dataclass(frozen=True)
class Range:
    """The offsets from `start` to `end` (exclusive) of one partition."""

    topic: str
    partition: int
    start: int
    end: int
    topic_id: str = ""
    """If known: ranges of a topic that was made anew do not follow those of the old one."""

    def __str__(self) -> str:
        return f"topic {self.topic}, partition {self.partition}"


@dataclass(frozen=True)
class Bounds:
    """Maximum size of a batch. A larger record is a batch of its own."""

    rows: int = 65_536
    bytes: int = 8 << 20


DEFAULT_BOUNDS = Bounds()


class RangeReader(Protocol):
    """Reads a range as batches of `record_batches.SCHEMA`, in order, until it is read or `stop` is set.

    Records of aborted transactions are left out; a range may be empty. Raises OffsetOutOfRange if the range begins
    before the earliest record or after the end of the partition.
    """

    def read(
        self, wanted: Range, bounds: Bounds = DEFAULT_BOUNDS, stop: Event | None = None
    ) -> Iterator[pa.RecordBatch]: ...


def reader_conf(settings: KafkaSettings, *, queue_bytes: int) -> dict[str, str]:
    """The settings of a consumer that reads ranges."""
    return {
        **client_conf(settings),
        "group.id": GROUP,
        "enable.auto.commit": "false",
        "enable.auto.offset.store": "false",
        "auto.offset.reset": "error",  # `earliest` would jump over lost records without a word
        "enable.partition.eof": "true",
        "isolation.level": "read_committed",
        # A full queue makes the fetcher sleep for this time, a second by default.
        "fetch.queue.backoff.ms": "2",
        # The end of a partition is reported this long after its last record, and a handle waits this long for the
        # last answer of one range before it reads the next.
        "fetch.wait.max.ms": "2",
        "fetch.error.backoff.ms": "50",
        "queued.max.messages.kbytes": str(max(1, queue_bytes >> 10)),
        "topic.metadata.propagation.max.ms": "1000",
    }


Watermarks = Callable[[], tuple[int, int]]
"""Asks a broker for the earliest offset and the end of the partition."""


class Progress:
    """Raises once a reader has waited for the request timeout without progress, or sooner if the reason is known."""

    def __init__(self, wanted: Range, settings: KafkaSettings, errors: ConnectionErrors) -> None:
        self._wanted, self._settings, self._errors = wanted, settings, errors
        self._seconds = settings.request_timeout / 1000
        self._position, self._since, self._asked = -1, time.monotonic(), False

    def at(self, position: int) -> None:
        if position != self._position:
            self._position, self._since, self._asked = position, time.monotonic(), False
            self._errors.clear()
            return
        if refused := self._errors.refused():
            raise refused
        idle = time.monotonic() - self._since
        if idle > self._seconds:
            late = Unavailable(
                f"Kafka: {self._wanted}: no record for {self._seconds:.0f} s at offset {position}, before the end of"
                f" the range, {self._wanted.end}",
                hint="check that the brokers are up, that no transaction is open, and that the topic still exists",
            )
            raise self._errors.instead_of(late)
        if idle > _ASK_SECONDS and not self._asked:
            self._asked = True
            self._ask()

    def _ask(self) -> None:
        """Raises if the topic or partition is missing, or if this user may not read it: a consumer is not told."""
        with suppress(Unavailable):
            topic = Admin(self._settings).describe(self._wanted.topic)
            if not any(each.number == self._wanted.partition for each in topic.partitions):
                raise NotFound(f"Kafka: {self._wanted}: the topic has {len(topic.partitions)} partitions")


def out_of_range(wanted: Range, watermarks: Watermarks) -> OffsetOutOfRange:
    try:
        earliest, end = watermarks()
    except Unavailable:
        earliest = end = -1
    return OffsetOutOfRange(
        f"Kafka: {wanted}: offset {wanted.start} is not in the partition, which holds {earliest} to {end}",
        offset=wanted.start,
        earliest=earliest,
        end=end,
    )
