"""The partitions of topics in outside systems. Processors read each of them by itself, under its key in Ends."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pyarrow as pa

from gauss.clients.engine.positions import Ends, place_key
from gauss.contracts.chunk import Chunk
from gauss.contracts.cursor import Placed
from gauss.contracts.framing import Framing
from gauss.contracts.shared_log import LogPartition, SharedLog
from gauss.model.errors import Collected, Rejected
from gauss.stream.engine.topics.log_topic import LogTopic
from gauss.stream.engine.topics.topic import Topic

Added = Callable[[str, LogTopic], None]
"""Takes the key of a new partition, and the partition."""
Renewed = Callable[[LogTopic], None]
"""Takes a topic that has another incarnation."""


class PartitionLog:
    """One partition as a `Log` that is only read."""

    framing: Framing | None = None
    times_vary = True

    def __init__(self, log: SharedLog, number: int) -> None:
        self._log, self._number = log, number
        self.inc = log.inc

    @property
    def _partition(self) -> LogPartition | None:
        """It is another one after the topic was deleted and created again, perhaps with fewer partitions."""
        found = self._log.partitions()
        return found[self._number] if self._number < len(found) else None

    @property
    def floor(self) -> int:
        return 0 if (partition := self._partition) is None else partition.floor

    @property
    def end(self) -> int:
        return 0 if (partition := self._partition) is None else partition.end

    def chunks(self, start: int, stop: int, max_bytes: int) -> list[Placed]:
        if start < self.floor:
            raise Collected(f"offset {start} no longer exists; the oldest is {self.floor}")
        found: list[Placed] = []
        partition = self._partition
        for batch in partition.records(start, min(stop, self.end)) if partition is not None else ():
            found += placed(batch)
            if (max_bytes := max_bytes - batch.nbytes) <= 0:
                break
        return found

    def offset_at(self, ts_ms: int) -> int:
        return 0 if (partition := self._partition) is None else partition.offset_at(ts_ms)

    def bytes_from(self, offset: int) -> int:
        return 0 if (partition := self._partition) is None else partition.bytes_between(offset, self.end)

    def offset_within(self, limit: int) -> int:  # noqa: ARG002 (there is no limit)
        return self.floor

    def last_ts(self) -> int:
        return 0

    def append(self, chunk: Chunk, publish: int = 0) -> None:  # noqa: ARG002 (never called with any)
        raise Rejected("records are appended to a topic, not to one of its partitions")

    def reveal(self) -> None: ...

    def rollback(self) -> None: ...

    def trim(self, floor: int) -> None: ...

    def skip_to(self, offset: int) -> None: ...

    def maintain(self, passed: int, now_ms: int | None = None) -> None: ...

    def close(self) -> None: ...


def is_partition(topic: Topic) -> bool:
    """Whether the records are in an outside system, where a look at one of them takes time."""
    return isinstance(topic, LogTopic) and isinstance(topic.log, PartitionLog)


class Partitions:
    """The partitions of one topic. They follow the outside system: ends move, partitions are added, and a topic that
    was deleted and made anew has another incarnation."""

    def __init__(self, topic: LogTopic, log: SharedLog, make: Callable[[str, PartitionLog], LogTopic]) -> None:
        """`make` opens a partition under its key."""
        self._topic, self._log, self._make = topic, log, make
        self.places: dict[str, LogTopic] = {}
        self._end = log.end
        self._new()

    def follow(self, added: Added, renewed: Renewed) -> None:
        """Begins to follow the outside system; calls `added` for each partition that is added from now on, and
        `renewed` when the topic was deleted and made anew."""

        def moved() -> None:
            for key in self._new():
                added(key, self.places[key])
            if self._topic.inc != self._log.inc:
                self._topic.begin_anew(self._end)
                renewed(self._topic)
            self._end = self._log.end
            for each in (self._topic, *self.places.values()):
                each.inc = self._log.inc
                each.announce()

        self._log.follow(moved, needed=self._is_awaited)

    def show_position(self, group: str, ends: Ends) -> None:
        """Shows the position of a processor to the tools of the outside system."""
        own = {at.partition: at.off for key, at in ends.items() if key in self.places and at.inc == self._log.inc}
        if own:
            self._log.note_position(group, own)

    def show_reader(self, group: str, name: str) -> None:
        """Shows the position of a sink, which reads the partitions as one log: that of its slowest client."""
        slowest = self._topic.readers.slowest(name)
        if slowest is not None:
            self._log.note_position(group, self._log.ends_at(slowest.position))

    def _new(self) -> list[str]:
        """Opens the partitions that are not open yet; returns their keys."""
        found = [(place_key(self._topic.name, each.number), each) for each in self._log.partitions()]
        new = [(key, each) for key, each in found if key not in self.places]
        for key, each in new:
            self.places[key] = self._make(key, PartitionLog(self._log, each.number))
        return [key for key, _ in new]

    def _is_awaited(self) -> bool:
        return any(each.is_awaited for each in (self._topic, *self.places.values()))


def placed(batch: pa.RecordBatch) -> list[Placed]:
    """Records as chunks of consecutive offsets."""
    offsets = batch.column(0).to_numpy()
    cuts = [0, *(np.flatnonzero(np.diff(offsets) != 1) + 1).tolist(), len(offsets)]
    times, data = batch.column(1).to_numpy(), batch.column(2)
    return [
        Placed(int(offsets[first]), Chunk(data.slice(first, stop - first), stop - first, times[first:stop]))
        for first, stop in itertools.pairwise(cuts)
        if stop > first
    ]
