"""A Kafka topic as a `SharedLog`: the engine's view of partitions that tasks and others read and write too."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from typing import NamedTuple, cast

import pyarrow as pa

from gauss.clients.kafka.admin import Admin, Topic
from gauss.clients.kafka.following_reader import FollowingReader
from gauss.contracts.chunk import Chunk
from gauss.contracts.cursor import Placed
from gauss.contracts.framing import Framing
from gauss.contracts.letter import Letter
from gauss.contracts.plugin import PluginConfig
from gauss.contracts.shared_log import LaneWriter
from gauss.contracts.storage import ReadMode, StorageContext
from gauss.model.errors import Collected, GaussError, NotFound, Rejected, Unavailable
from gauss.plugins.storages.kafka.appender import Appender
from gauss.plugins.storages.kafka.group_positions import GroupPositions
from gauss.plugins.storages.kafka.newest_rows import NewestRows
from gauss.plugins.storages.kafka.order_index import Piece
from gauss.plugins.storages.kafka.partition import KafkaPartition
from gauss.plugins.storages.kafka.read_ahead import ReadAhead, Segment
from gauss.plugins.storages.kafka.spec import SPEC, KafkaTopicConfig
from gauss.plugins.storages.kafka.task_log import KafkaTaskLog
from gauss.plugins.storages.kafka.topic_state import TopicState, open_state
from gauss.plugins.storages.kafka.watcher import Watcher
from gauss.plugins.storages.kafka.written_fields import WrittenFields
from gauss.scan.merge import coalesced

log = logging.getLogger("gauss.kafka")

_LOOK_SECONDS = 0.001
_QUEUE_BYTES, _QUEUE_RECORDS = 1 << 20, 5_000
"""What is fetched ahead of each partition; the records that were read are kept too."""
_VISIBLE_SECONDS = 1.0
"""Maximum time for which a writer waits until its acknowledged records are visible."""


class _Now(NamedTuple):
    """The current incarnation, replaced as a whole."""

    state: TopicState
    reads: ReadAhead
    partitions: list[KafkaPartition]


class KafkaLog:
    """A `SharedLog` in Kafka. What is appended is sent to the brokers by `reveal`."""

    framing: Framing | None = None
    times_vary = True

    def __init__(self, config: PluginConfig, context: StorageContext) -> None:
        self._config, self._context = cast(KafkaTopicConfig, config), context
        self.topic = self._config.name(context.topic)
        self._admin = Admin(self._config)
        self.reader = FollowingReader(self._config, queue_bytes=_QUEUE_BYTES, queue_records=_QUEUE_RECORDS)
        self._renewing = threading.Lock()
        self._fields = WrittenFields(self._config, context)
        self._appender = Appender(self._config, self._admin, self.topic, self._fields)
        self._positions = GroupPositions(self._admin, self.topic)
        self._sent: dict[int, int] = {}
        """By partition: the end of the records that were sent and are not revealed."""
        self._watcher: Watcher | None = None
        self._last_ts = (-1, 0)
        self._now = self._opened(self._existing_topic())
        self.inc = self._now.state.inc
        has_rows = ReadMode.SNAPSHOT in SPEC.read_modes(self._config)
        self._rows = NewestRows(self, self._config, context) if has_rows else None
        self.look_back()
        self.look()

    def _existing_topic(self) -> Topic:
        config = self._config
        try:
            if not config.create:
                return self._admin.describe(self.topic)
            return self._admin.ensure(
                self.topic, config.partitions, replication=config.replication, config=config.topic_config
            )
        except NotFound as error:
            hint = f"create topic {self.topic} in Kafka, or set create = true"
            raise NotFound(f'topic "{self._context.topic}": {error.message}', hint=hint) from error
        except Unavailable as error:
            brokers = ", ".join(config.brokers)
            message = f'topic "{self._context.topic}": the Kafka brokers {brokers} do not answer: {error.message}'
            raise Unavailable(
                message, hint=error.hint or "check that the brokers are up, and their addresses"
            ) from error

    def _opened(self, topic: Topic) -> _Now:
        count = len(topic.partitions)
        state = open_state(self._context.directory, self.topic, topic.topic_id, count, self._context.incarnation)
        return self._with_partitions(state, ReadAhead(self.reader, self.topic, topic.topic_id, state.ended))

    def _with_partitions(self, state: TopicState, reads: ReadAhead) -> _Now:
        return _Now(state, reads, [KafkaPartition(self, state, number) for number in sorted(state.ends)])

    # --- ends, floors and incarnations ---

    @property
    def floor(self) -> int:
        return self._now.state.floor

    @property
    def end(self) -> int:
        return self._now.state.end

    def partitions(self) -> Sequence[KafkaPartition]:
        return self._now.partitions

    def look(self) -> None:
        self.look_once(now=True)

    def look_once(self, *, now: bool) -> None:
        """Asks for the ends of the partitions. `now`: the end of the log moves at once, not with the next step of its
        index."""
        state = self._now.state
        ends = self._admin.stable(self.topic, sorted(state.ends))
        if any(end < state.ends[number] for number, end in ends.items()):
            self.look_back()  # made anew, or cut by an unclean election
        if self._now.state is state:
            state.advance(ends, now=now)

    def look_back(self) -> None:
        """Asks for the topic's id, its partitions and their oldest records."""
        described = self._admin.describe(self.topic)
        self._renew(described)
        state, reads, _ = self._now
        if state.add_partitions(len(described.partitions)):
            self._now = self._with_partitions(state, reads)
        state.retain(self._admin.earliest(self.topic, sorted(state.ends)))

    def _renew(self, described: Topic) -> None:
        """Begins a new incarnation if the topic was deleted and made anew."""
        with self._renewing:
            before = self._now.state
            if before.identity.topic_id == described.topic_id:
                return
            log.warning("topic %s was deleted and made anew: readers begin at its start", self.topic)
            before.close()
            self._now.reads.close()
            self._now = self._opened(described)
            self.inc = self._now.state.inc
            if self._rows is not None:
                self._rows.inc = self.inc
            self._last_ts = (-1, 0)
            self._positions.forget()

    def check(self, state: TopicState) -> None:
        """Raises Rejected if the topic is no longer that of the given state."""
        try:
            found = self._admin.describe(self.topic).topic_id
        except NotFound:
            found = ""
        if found != state.identity.topic_id:
            if self._watcher is not None:
                self._watcher.hurry()
            happened = "deleted and made anew" if found else "deleted"
            raise Rejected(
                f"Kafka: topic {self.topic} was {happened} while it was read", hint="read it from its start again"
            )

    def follow(self, moved: Callable[[], None], *, needed: Callable[[], bool]) -> None:
        self._watcher = Watcher(self, moved, needed)
        self._watcher.start()

    @property
    def error(self) -> GaussError | None:
        """Why the brokers can't be asked at the moment."""
        return None if self._watcher is None else self._watcher.error

    def seen(self) -> tuple[int, ...]:
        """What differs whenever an end, the number of partitions or the incarnation has changed."""
        state = self._now.state
        return state.inc, state.end, sum(state.ends.values()), len(state.ends)

    @property
    def is_stepping(self) -> bool:
        """Whether records wait for the next step of the log's end."""
        return self._now.state.is_stepping

    @property
    def state(self) -> TopicState:
        """The current incarnation."""
        return self._now.state

    def rows(self) -> NewestRows | None:
        return self._rows

    def ends_at(self, offset: int) -> dict[int, int]:
        state = self._now.state
        return {**dict.fromkeys(state.ends, 0), **state.index.ends_at(offset)}

    def note_position(self, group: str, ends: Mapping[int, int]) -> None:
        self._positions.note(group, ends)

    # --- writing ---

    def fit(self, chunk: Chunk) -> tuple[Chunk | None, list[Letter]]:
        return self._fields.fit(chunk, len(self._now.state.ends), self.inc)

    def append(self, chunk: Chunk, publish: int = 0) -> None:  # noqa: ARG002 - the number is the journal's
        if chunk.count:
            self._appender.stage(chunk)

    def lane(self, writer: str, since_ms: int) -> LaneWriter:
        context = self._context
        return KafkaTaskLog(self._config, context.directory, context.format).lane(writer, 0, since_ms)

    def written(self, chunk: Chunk) -> pa.RecordBatch:
        return self._fields.batch(chunk)

    def rollback(self) -> None:
        """Discards what is not sent yet."""
        self._appender.discard()

    def reveal(self) -> None:
        """Sends what was appended. Returns when it is acknowledged and visible; it is visible later if a transaction of
        another producer is open in its partition, or if the brokers do not answer then."""
        self.send()
        state, sent, self._sent = self._now.state, self._sent, {}
        deadline = time.monotonic() + _VISIBLE_SECONDS
        try:
            while sent and not state.ended.is_set():
                ends = self._admin.stable(self.topic, sorted(state.ends))
                state.advance(ends, now=True)
                if all(ends[number] >= end for number, end in sent.items()) or time.monotonic() > deadline:
                    return
                time.sleep(_LOOK_SECONDS)
        except GaussError as error:
            self._not_seen(error)

    def send(self) -> None:
        if self._appender.staged:
            state, reads, _ = self._now
            reads.note(self._appender.staged, self._appender.staged_bytes)
            written = self._appender.send(len(state.ends))
            try:
                self._sent |= self._admin.latest(self.topic, written)
            except GaussError as error:
                self._not_seen(error)

    def take_refused(self) -> list[pa.RecordBatch]:
        found, self._appender.refused = self._appender.refused, []
        return found

    def _not_seen(self, error: GaussError) -> None:
        """The brokers have acknowledged records, and then did not tell their ends. An error would let the sender send
        them again; the watcher sees them once the brokers answer."""
        log.warning("topic %s: records were written, but are not visible yet: %s", self.topic, error.message)

    # --- reading ---

    def chunks(self, start: int, stop: int, max_bytes: int) -> list[Placed]:
        now = self._now
        state = now.state
        if start < state.floor:
            raise Collected(f"offset {start} is behind the oldest retained record {state.floor}")
        found, segments = _taken(now, start, min(stop, state.end), max_bytes)
        if not all(segment.checked for segment in segments):
            try:
                self.check(state)
            except Rejected as error:  # as for a cursor whose records are gone
                raise Collected(error.message, hint=error.hint) from error
            for segment in segments:
                segment.checked = True
        return coalesced(found)

    def mean_bytes(self) -> float:
        """Mean size of a record."""
        return self._now.reads.mean_bytes()

    def times(self, partitions: Sequence[int], ts_ms: int) -> dict[int, int | None]:
        """By partition: the offset of the first record with `ts_ms >=` the given time, if any."""
        return self._admin.at_time(self.topic, partitions, max(0, ts_ms))

    def last_ts(self) -> int:
        """As of about a second ago once it is followed: those who ask for it do not wait for brokers."""
        if self._watcher is None:
            with suppress(GaussError):
                self.look_at_times()
        return self._last_ts[1]

    def look_at_times(self) -> None:
        """Asks for the time of the newest record, if there are new ones."""
        state = self._now.state
        if self._last_ts[0] != state.end:
            newest = self._admin.newest_time(self.topic, sorted(state.ends)) if state.end else 0
            self._last_ts = (state.end, newest)

    def offset_at(self, ts_ms: int) -> int:
        state = self._now.state
        found = self.times(sorted(state.ends), ts_ms)
        offsets = [state.index.offset_of(number, offset) for number, offset in found.items() if offset is not None]
        return max(state.floor, min([state.end, *offsets]))

    def bytes_from(self, offset: int) -> int:
        state, reads, _ = self._now
        held = max(0, state.end - max(offset, state.floor))
        return int(held * reads.mean_bytes()) + self._appender.staged_bytes

    def offset_within(self, limit: int) -> int:
        state, reads, _ = self._now
        return max(state.floor, state.end - int(limit / max(1.0, reads.mean_bytes())))

    # --- what Kafka does itself ---

    def trim(self, floor: int) -> None:
        """Does nothing: Kafka deletes by the settings of the topic."""

    def skip_to(self, offset: int) -> None:
        """Does nothing: Kafka gives the offsets."""

    def maintain(self, passed: int, now_ms: int | None = None) -> None:  # noqa: ARG002
        self._now.state.maintain()
        if self._rows is not None:
            self._rows.maintain()

    def close(self) -> None:
        self._appender.end()
        if self._watcher is not None:
            self._watcher.stop()
        self._positions.close()
        self._now.state.close()
        self._now.reads.close()


def _size(piece: Piece) -> int:
    return piece.stop - piece.start


def _within(pieces: Iterable[Piece], records: int) -> list[Piece]:
    """The first pieces, up to about so many records, but at least one."""
    found: list[Piece] = []
    for piece in pieces:
        found.append(piece)
        records -= _size(piece)
        if records <= 0:
            break
    return found


def _taken(now: _Now, start: int, stop: int, max_bytes: int) -> tuple[list[Placed], list[Segment]]:
    """Records of [start, stop), and the segments that have them."""
    state, reads, _ = now
    found: list[Placed] = []
    segments: list[Segment] = []
    pieces = _within(state.index.pieces(start, stop), int(max_bytes / max(1.0, reads.mean_bytes())))
    reads.prepare([(piece.partition, piece.start) for piece in pieces], state.ends)
    for piece in chain(pieces, state.index.pieces(pieces[-1].offset + _size(pieces[-1]), stop) if pieces else ()):
        position = piece.start
        while position < piece.stop:
            segment = reads.at(piece.partition, position, state.ends[piece.partition], len(state.ends))
            segments.append(segment)
            upto = min(segment.stop, piece.stop)
            taken, all_of_it = segment.taken(position, upto, max_bytes)
            found += [Placed(piece.offset + first - piece.start, chunk) for first, chunk in taken]
            max_bytes -= sum(chunk.nbytes for _, chunk in taken)
            if not all_of_it or max_bytes <= 0:
                return found, segments
            position = upto
    return found, segments
