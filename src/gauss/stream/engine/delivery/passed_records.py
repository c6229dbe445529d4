"""Records that pass from topic to topic unchanged: a task names them, and the engine shares their bytes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from gauss.clients.engine.task_messages import Passed
from gauss.contracts.chunk import Chunk, file_part
from gauss.contracts.cursor import Code, OffsetRange, Output, Placed, Program, Step
from gauss.model.errors import Collected, ProtocolError
from gauss.stream.engine.delivery.stages import StagedRecords
from gauss.stream.engine.topics.topic import Topic

STEP = Step(limit=1 << 20, max_bytes=8 << 20, fill=False)


def passed_chunks(topic: Topic, stage: StagedRecords) -> list[Chunk]:
    """The records that a stage names; raises if some no longer exist."""
    passed = stage.head.passed
    assert passed is not None
    offsets = None if stage.head.whole else _offsets(stage)
    wanted = passed.stop - passed.start if offsets is None else len(offsets)
    there = passed.inc == topic.inc and passed.stop <= topic.version()
    chunks = list(_found(topic, passed, offsets)) if there else []
    if sum(chunk.count for chunk in chunks) != wanted:
        raise ProtocolError(
            f'processor "{stage.head.processor}" passes {wanted} records of topic "{topic.name}" that no longer exist',
            hint="run the epoch again; lost records are counted then",
        )
    return chunks


def _offsets(stage: StagedRecords) -> np.ndarray:
    found = [batch.column("offset").to_numpy() for batch in stage.read()]
    return np.concatenate(found) if found else np.zeros(0, np.int64)


def _found(topic: Topic, passed: Passed, offsets: np.ndarray | None) -> Iterator[Chunk]:
    for offset, chunk in _placed(topic, passed):
        if offsets is None:
            yield _kept(chunk)
            continue
        first, stop = np.searchsorted(offsets, (offset, offset + chunk.count))
        if rows := stop - first:
            yield _rows(chunk, offsets[first:stop] - offset) if rows < chunk.count else _kept(chunk)


def _placed(topic: Topic, passed: Passed) -> Iterator[Placed]:
    try:
        cursor = topic.open(Program(OffsetRange(passed.start, passed.stop), output=Output.CHUNKS))
    except Collected:
        return
    try:
        while cursor.next(STEP) is Code.OK:
            placed = cursor.read()[1]
            assert isinstance(placed, list)
            yield from placed
    finally:
        cursor.close()


def _rows(chunk: Chunk, rows: np.ndarray) -> Chunk:
    times = chunk.ts_ms if isinstance(chunk.ts_ms, int) else chunk.ts_ms[rows]
    return Chunk(chunk.data().take(pa.array(rows)), len(rows), times)


def _kept(chunk: Chunk) -> Chunk:
    """A chunk that may outlive the one it was cut from: it retains at most twice its bytes, and no file."""
    payload = chunk.payload
    if chunk.framing is None:
        if payload.get_total_buffer_size() <= 2 * payload.nbytes:
            return chunk
        payload = payload.take(pa.array(np.arange(len(payload))))
    else:
        if not isinstance(payload, memoryview):
            return chunk
        if file_part(payload) is None and memoryview(payload.obj).nbytes <= 2 * len(payload):
            return chunk
        payload = bytes(payload)
    return Chunk(payload, chunk.count, chunk.ts_ms, chunk.framing)
