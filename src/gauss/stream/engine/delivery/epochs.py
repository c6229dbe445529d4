"""Rules of epochs: their start, whether one was published, its number of records and their time."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping

import msgspec
import numpy as np
import pyarrow as pa

from gauss.clients.engine.positions import At, Ends, place_key, places
from gauss.clients.engine.task_messages import StageTime
from gauss.contracts.chunk import Chunk
from gauss.contracts.cursor import Code, OffsetRange, Output, Program, Step
from gauss.contracts.letter import Letter
from gauss.model.errors import Collected, ProtocolError
from gauss.stream.engine.delivery.dead_letters import skipped
from gauss.stream.engine.delivery.stages import StagedRecords
from gauss.stream.engine.journal.entries import ProcessorRow
from gauss.stream.engine.topics.partitions import is_partition
from gauss.stream.engine.topics.topic import Topic


def epoch_after(row: ProcessorRow, start: Ends) -> Ends | None:
    """The ends of the published epoch that began at `start`; `None` if the next epoch begins there."""
    if row.epoch < 0 or start == row.ends:
        return None
    return next((ends for epoch, ends in row.recent if row.start_of(epoch) == start), None)


def rows_between(start: Ends, end: Ends) -> int:
    """Number of records from `start` to `end`; none of a lost incarnation."""
    rows = 0
    for name, at in places(end).items():
        begin = start.get(name, At(0, 0))
        rows += at.off - begin.off if at.inc == begin.inc else at.off
    return rows


def behind(topic: Topic, at: At) -> int:
    """Number of visible records from a position on."""
    return topic.version() - (max(at.off, topic.floor()) if at.inc == topic.inc else topic.floor())


def held(row: ProcessorRow | None, topic: str, *, keep_epochs: bool = False) -> At | None:
    """The start of a new checkpoint of the processor; with `keep_epochs`, before its last two epochs."""
    if row is None:
        return None
    if row.epoch < 0:
        return row.start.get(topic)
    if keep_epochs:
        before = row.start_of(max(row.epoch - 1, 0)) or {}
        return before.get(topic, row.ends.get(topic))
    return row.ends.get(topic)


def published_before(row: ProcessorRow, processor: str, epoch: int, ends: Ends) -> bool:
    """Whether the ledger has this epoch; raises if it is neither the next one nor an exact repetition."""
    if epoch <= row.epoch:
        known = next((known for number, known in row.recent if number == epoch), None)
        if known == ends:
            return True
        found = "other source ends" if known is not None else "ends that are no longer known"
        raise ProtocolError(
            f'processor "{processor}" publishes epoch {epoch} again, but it was published with {found}',
            hint="its checkpoint differs from that in the ledger; start it with a new checkpoint",
        )
    if epoch != row.epoch + 1:
        raise ProtocolError(
            f'processor "{processor}": expected epoch {row.epoch + 1}, found {epoch}',
            hint="its checkpoint differs from that in the ledger; start it with a new checkpoint",
        )
    begin = row.start_of(epoch) or {}
    for name, at in begin.items():
        if name not in ends or (ends[name].inc, ends[name].off) < (at.inc, at.off):
            raise ProtocolError(
                f'processor "{processor}", epoch {epoch}: its end in topic "{name}" is missing or decreases'
            )
    return False


def staged_chunks(staged: StagedRecords, ts_ms: int) -> list[Chunk]:
    """The batches of a stage as chunks; a record without a time gets `ts_ms`."""
    chunks = []
    for batch in staged.read():
        if not batch.num_rows:
            continue
        data = batch.column("data").cast(pa.binary())
        times: int | np.ndarray = ts_ms
        if "ts_ms" in batch.schema.names:
            given = batch.column("ts_ms").fill_null(-1).to_numpy(zero_copy_only=False)
            times = np.where(given < 0, ts_ms, given)
        chunks.append(Chunk(data, len(data), times))
    return chunks


def skipped_letters(topics: Mapping[str, Topic], processor: str, start: Ends, end: Ends, why: str) -> list[Letter]:
    """A letter for each record of an epoch that still exists."""
    letters: list[Letter] = []
    for name, at in places(end).items():
        topic = topics[name]
        begin = start[name].off if name in start and start[name].inc == at.inc else 0
        if at.inc != topic.inc or (begin := max(begin, topic.floor())) >= at.off:
            continue
        cursor = topic.open(Program(OffsetRange(begin, at.off), output=Output.CHUNKS))
        while cursor.next(Step(fill=False)) is Code.OK:
            _, placed = cursor.read()
            assert isinstance(placed, list)
            for offset, chunk in placed:
                letters += [
                    msgspec.structs.replace(letter, processor=processor, topic=name, inc=at.inc)
                    for letter in skipped(chunk, offset, why)
                ]
        cursor.close()
    return letters


def last_ts(topic: Topic, at: At) -> int:
    """The time of the record before a position; 0 if it no longer exists, or is in an outside system."""
    if is_partition(topic) or at.inc != topic.inc or not topic.floor() < at.off <= topic.version():
        return 0
    try:
        cursor = topic.open(Program(OffsetRange(at.off - 1, at.off)))
    except Collected:
        return 0
    try:
        if cursor.next(Step(limit=1)) is not Code.OK:
            return 0
        _, batch = cursor.read()
        assert isinstance(batch, pa.RecordBatch)
        return int(batch.column(1)[-1].as_py())
    finally:
        cursor.close()


def input_ts(topics: Mapping[str, Topic], ends: Ends) -> int:
    """The largest ts_ms of an epoch's input, which is that of the last record, since times never decrease; without
    records, the clock's."""
    times = [last_ts(topics[name], at) for name, at in ends.items() if name in topics]
    return max(times, default=0) or int(time.time() * 1000)


def seen_by(times: Iterable[StageTime]) -> dict[str, int]:
    """The largest event time of each partition, by the keys of Ends."""
    found: dict[str, int] = {}
    for each in times:
        place = place_key(each.topic, each.partition)
        if each.seen:
            found[place] = max(found.get(place, 0), each.seen)
    return found
