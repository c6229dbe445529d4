"""One partition of a Kafka topic, and reads of its ranges that never mix two topics of the same name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from threading import Event
from typing import TYPE_CHECKING

import pyarrow as pa

from gauss.clients.kafka.errors import OffsetOutOfRange
from gauss.clients.kafka.reading import Range, RangeReader
from gauss.model.batch import KEYED_SCHEMA
from gauss.model.errors import NotFound, Unavailable
from gauss.plugins.storages.kafka.read_ahead import without_nulls

if TYPE_CHECKING:
    from gauss.plugins.storages.kafka.shared_log import KafkaLog
    from gauss.plugins.storages.kafka.topic_state import TopicState

Check = Callable[[], None]
"""Raises Rejected if the topic is no longer the one that is meant."""
Missed = Callable[[int, int], None]


def keyed_range(reader: RangeReader, wanted: Range, check: Check, missed: Missed) -> Iterator[pa.RecordBatch]:
    """The records of a range that still exist, as batches of `KEYED_SCHEMA`. Calls `missed` with what was deleted, and
    `check` to explain an error.

    They may belong to a later topic of the same name: the caller checks that after the last batch.
    """
    return map(_keyed, existing_range(reader, wanted, check, missed))


def existing_range(
    reader: RangeReader, wanted: Range, check: Check, missed: Missed, stop: Event | None = None
) -> Iterator[pa.RecordBatch]:
    """As `keyed_range`, with null data of tombstones. Ends early if `stop` is set."""
    position = wanted.start
    while position < wanted.end:
        try:
            for batch in reader.read(replace(wanted, start=position), stop=stop):
                position = batch.column("offset")[-1].as_py() + 1
                yield batch
            break
        except OffsetOutOfRange as error:
            check()
            if error.earliest <= position:
                raise
            resumed = min(error.earliest, wanted.end)
            missed(position, resumed)
            position = resumed
        except (NotFound, Unavailable):
            with suppress(Unavailable):  # the brokers do not answer: then the first error says why
                check()
            raise


def _keyed(batch: pa.RecordBatch) -> pa.RecordBatch:
    columns = batch.columns
    columns[2] = without_nulls(columns[2])
    return pa.RecordBatch.from_arrays(columns, schema=KEYED_SCHEMA)


class KafkaPartition:
    """A `LogPartition` of one incarnation."""

    def __init__(self, log: KafkaLog, state: TopicState, number: int) -> None:
        self.number = number
        self._log, self._state = log, state

    @property
    def floor(self) -> int:
        return self._state.earliest[self.number]

    @property
    def end(self) -> int:
        return self._state.ends[self.number]

    def offset_at(self, ts_ms: int) -> int:
        found = self._log.times([self.number], ts_ms)[self.number]
        return self.end if found is None else min(found, self.end)

    def bytes_between(self, start: int, stop: int) -> int:
        return int(max(0, stop - start) * self._log.mean_bytes())

    def records(self, start: int, stop: int) -> Iterator[pa.RecordBatch]:
        def check() -> None:
            self._log.check(self._state)

        wanted = Range(self._log.topic, self.number, start, stop, self._state.identity.topic_id)
        yield from keyed_range(self._log.reader, wanted, check, lambda *_: None)
        check()
