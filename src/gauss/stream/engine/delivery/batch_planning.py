"""Plans the batches of Spark readers: how far each may read, what its position holds back, and what it lost."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from contextlib import ExitStack

from gauss.clients.engine.cursor_messages import Read
from gauss.clients.engine.positions import At, Ends, partition_of, place_at, places, topic_of
from gauss.clients.engine.task_messages import Latest, LatestReply, Missed
from gauss.contracts.storage import WriteFull
from gauss.model.errors import ProtocolError, StorageError
from gauss.model.names import is_retry_topic
from gauss.stream.engine.delivery.epochs import epoch_after, held, rows_between
from gauss.stream.engine.delivery.heartbeat import Heartbeat
from gauss.stream.engine.delivery.processor_run import ProcessorRun
from gauss.stream.engine.delivery.publish import Publisher
from gauss.stream.engine.delivery.side_tables import SideTables
from gauss.stream.engine.journal.ledger import Ledger
from gauss.stream.engine.topics.log_topic import LogTopic
from gauss.stream.engine.topics.partitions import is_partition
from gauss.stream.engine.topics.readers import OffsetReader
from gauss.stream.engine.topics.topic import Topic

BOUNDED_LOOK_S = 0.02

log = logging.getLogger(__name__)


class Sources:
    """Answers `latest` and counts losses. `start` of a `latest` is the reader's position: Spark sends it only after the
    batch that ends there is in its commit log."""

    def __init__(
        self,
        topics: Mapping[str, Topic],
        ledger: Ledger,
        publisher: Publisher,
        durable: frozenset[str],
        heartbeat: Heartbeat,
        *,
        ended: Ends,
    ) -> None:
        """`ended`: the ends of memory topics that were lost with the last engine."""
        self._topics = topics
        self._ledger = ledger
        self._publisher = publisher
        self._durable = durable
        self.tables = SideTables(topics)
        self._heartbeat = heartbeat
        self._ended = ended

    def latest(self, latest: Latest) -> LatestReply:
        """The end of the next batch; `start` itself if nothing is new within `wait_ms`."""
        running = self._publisher.processor(latest.processor)
        row = self._publisher.check_generation(latest.processor, latest.generation)
        for name, generation in running.members.items():
            self._publisher.check_generation(name, generation)  # it was taken out of its chain
        if (again := epoch_after(row, latest.start)) is not None:
            # Spark has lost its log of that epoch (its files are not fsynced): the same ends make the publish a no-op.
            return LatestReply(again, rows_between(latest.start, again), self.lag(running, again))
        self.check_places(running, latest.start)
        for name, at in places(latest.start).items():
            if at.inc == self._topics[name].inc:
                self.moved(running, name, at)
        running.timing = latest.timing
        deadline = time.monotonic() + latest.wait_ms / 1000
        bell = threading.Event()
        with ExitStack() as watching:
            for name in filter(running.is_main, running.sources):
                watching.enter_context(self._topics[name].ringing(bell))
            while True:
                bell.clear()  # before the check, so that records that arrive during it end the wait
                end = self.end_of(running, latest.start, latest.max_rows, latest.max_bytes)
                left = deadline - time.monotonic()
                if end != latest.start or left <= 0 or running.cancel.is_set():
                    break
                if running.bounded is not None:
                    running.cancel.wait(min(left, BOUNDED_LOOK_S))  # new records may be outside its range
                else:
                    bell.wait(left)
        if latest.timing is not None:
            end = self._heartbeat.timed(running, row, latest.timing, latest.start, end)
        running.vain += end == latest.start
        rows = int(end != latest.start) if running.read == "latest" else rows_between(latest.start, end)
        return LatestReply(end, rows, self.lag(running, latest.start))

    def check_places(self, running: ProcessorRun, start: Ends) -> None:
        """Counts records that were lost with an engine before they were read; raises for unknown topics."""
        for name, at in places(start).items():
            if name not in self._topics:
                raise ProtocolError(
                    f'processor "{running.name}" reads the unknown topic "{name}"', hint="claim it anew"
                )
            if at.inc != self._topics[name].inc:
                self.lost_on_restart(running, self._topics[name], at)

    def moved(self, running: ProcessorRun, name: str, at: At, *, keep_epochs: bool = True) -> None:
        """Moves the processor to `at` and releases the records before it, except for the last epochs of a query with a
        checkpoint (`keep_epochs`)."""
        topic, reader = self._topics[name], running.readers.get(name)
        if reader is None:
            return
        if (bounded := running.range_in(name)) is not None and bounded.is_done(topic, at):
            if reader.connected:
                reader.close()  # between two queries it holds nothing back
            return
        if not reader.connected:
            reader = running.readers[name] = _registered_again(topic, reader, at)
        keep = at.off
        # A file topic keeps the last two epochs, unless it is read to its end: otherwise it could stay full for ever.
        if keep_epochs and name in self._durable and at.off < topic.version():
            before = held(self._ledger.row(running.name), name, keep_epochs=True)
            keep = min(keep, before.off) if before is not None and before.inc == at.inc else keep
        reader.move(max(keep, topic.floor()))

    def end_of(
        self, running: ProcessorRun, start: Ends, rows: int, size: int, busy: frozenset[str] = frozenset()
    ) -> Ends:
        """The end of a batch from `start`, within the limits, without topics that are `busy`. The retry topic comes
        first, since it is short; topics with records share the limits evenly."""
        end = dict(start)
        if running.stopped:
            return end
        for key in running.sources:
            if partition_of(key) and key not in end and topic_of(key) in end and self._topics[key].version():
                end[key] = place_at(key, self._topics[key].inc, 0)  # it was added during the run
        ready = [
            (name, *unread)
            for name in places(end)
            if name not in busy and (unread := self._unread(running, name, end[name]))
        ]
        ready.sort(key=lambda each: not is_retry_topic(each[0]))
        for place, (name, begin, last) in enumerate(ready):
            sharing = 1 if is_retry_topic(name) else len(ready) - place
            topic = self._topics[name]
            if rows <= 0 or size <= 0:
                break
            stop = last
            if running.read != "latest":
                stop = min(stop, begin + -(-rows // sharing))
                stop = within_bytes(topic, begin, stop, -(-size // sharing))
                size -= topic.bytes_from(begin) - topic.bytes_from(stop)
            rows -= stop - begin
            end[name] = place_at(name, topic.inc, stop)
        return end

    def _unread(self, running: ProcessorRun, name: str, at: At) -> tuple[int, int] | None:
        """The records of a topic that may be read now, from a position on; `None` if there are none."""
        topic = self._topics[name]
        begin, stop = at.off if at.inc == topic.inc else topic.floor(), topic.version()
        if (bounded := running.range_in(name)) is not None:
            stop = bounded.end(topic)
        return (begin, stop) if stop > begin else None

    def stay(self, running: ProcessorRun) -> bool:
        """Whether its records stay in their topics until its position has passed them."""
        held = (name in running.readers and _is_local(self._topics[name]) for name in running.sources)
        return all(held) and all(
            self._topics[name].capacity.write_full is not WriteFull.OVERWRITE for name in running.sources
        )

    def lag(self, running: ProcessorRun, at: Ends) -> int:
        """Number of records that a processor may read from a position on."""
        return sum(running.behind(self._topics[name], place) for name, place in at.items() if name in self._topics)

    def lost_on_restart(self, running: ProcessorRun, topic: Topic, at: At) -> None:
        """Counts, once, the unread records of a lost incarnation."""
        if (key := whole(topic.name, at.inc)) not in running.lost:
            running.lost.add(key)
            last, row = self._ended.get(topic.name), self._ledger.row(running.name)
            done = row.ends.get(topic.name) if row is not None else None
            begin = max(at.off, done.off) if done is not None and done.inc == at.inc else at.off
            known = last is not None and last.inc == at.inc
            count = max(last.off - begin, 0) if last is not None and known else 0
            if topic.name in running.readers:
                running.readers[topic.name].lost(count)
            lost = f"{count or 'no'} unread records are" if known else "an unknown number of unread records is"
            level = logging.INFO if known and not count else logging.WARNING
            log.log(level, "processor %s: %s; %s lost", running.name, _why_new(topic), lost)
        if running.on_restart == "fail":
            raise StorageError(
                f'processor "{running.name}" lost records: {_why_new(topic)}',
                hint='it has on_restart = "fail"; set "continue" to accept the loss',
            )

    def missed(self, missed: Missed) -> dict[str, bool]:
        """Counts records of a partition that were deleted before a task has read them."""
        self._publisher.check_generation(missed.processor, missed.generation)
        read = Read(missed.place, missed.inc, missed.start, missed.stop, missed.processor, missed.generation)
        self.lost_range(read, missed.start, missed.stop)
        return {"noted": True}

    def lost_range(self, read: Read, start: int, stop: int) -> None:
        """Counts, once, a part of a range that no longer exists, unless its epoch is already published."""
        if read.processor not in self._publisher.running:
            return
        running = self._publisher.running[read.processor]
        row = self._ledger.row(read.processor)
        done = row.ends.get(read.topic) if row is not None else None
        key = (read.topic, read.inc, start, stop)
        if key in running.lost or whole(read.topic, read.inc) in running.lost:
            return
        if done is not None and (done.inc, done.off) >= (read.inc, stop):
            return
        running.lost.add(key)
        if read.topic in running.readers:
            reader = running.readers[read.topic]
            (reader.lost if read.inc != self._topics[read.topic].inc else reader.missed)(stop - start)
        log.warning(
            "processor %s: records %d to %d of topic %s no longer exist", read.processor, start, stop, read.topic
        )


def _is_local(topic: Topic) -> bool:
    return isinstance(topic, LogTopic) and not is_partition(topic)


def _why_new(topic: Topic) -> str:
    """Why a topic has another incarnation."""
    if is_partition(topic):
        return f'topic "{topic_of(topic.name)}" was deleted and created again'
    return f'memory topic "{topic.name}" was emptied by a restart'


def _registered_again(topic: Topic, before: OffsetReader, at: At) -> OffsetReader:
    """The reader of the next query, with the counts of the earlier ones."""
    place = max(at.off, topic.floor()) if at.inc == topic.inc else topic.floor()
    reader = topic.reader(before.name, place, keep=False)
    reader.missed(before.missed_records)
    reader.lost(before.lost_on_restart)
    return reader


def whole(topic: str, inc: int) -> tuple[str, int, int, int]:
    """The key under which the loss of a whole incarnation is counted."""
    return topic, inc, -1, -1


def within_bytes(topic: Topic, begin: int, stop: int, size: int) -> int:
    """The largest end whose range has at most `size` bytes, but at least one record."""
    total = topic.bytes_from(begin)
    if total - topic.bytes_from(stop) <= size:
        return stop
    low, high = begin + 1, stop
    while low < high:
        middle = (low + high + 1) // 2
        if total - topic.bytes_from(middle) <= size:
            low = middle
        else:
            high = middle - 1
    return low
