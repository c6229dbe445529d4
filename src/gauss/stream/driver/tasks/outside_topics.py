"""Topics in outside systems, which tasks read and write themselves. What a task needs for that, secrets included, it
reads from the run's config. `written_lanes.py` writes them."""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from gauss.clients.engine.positions import place_key
from gauss.clients.engine.task_messages import Missed
from gauss.model.errors import ConfigError, NotFound
from gauss.model.paths import DataDir
from gauss.stream.driver.planning.reads import RangeRead
from gauss.stream.driver.tasks.reading import FORGET, Range, engine

if TYPE_CHECKING:
    from gauss.contracts.shared_log import TaskLog
    from gauss.stream.child import Assignment


NEWEST_ROWS = 16
"""Offsets that are read at first to find the newest record."""
_unchecked: set[tuple[str, str, int]] = set()
"""Topics and incarnations that were read since the last check."""


@lru_cache(maxsize=64)
def task_log(flight: str, topic: str) -> TaskLog:
    """A topic as tasks read and write it; the process keeps it open."""
    from gauss import registry
    from gauss.config.formats import named_format
    from gauss.contracts.storage import StorageSpec

    pipeline = assignment_of(flight).pipeline
    definition = pipeline.topic(topic)
    spec = registry.spec(StorageSpec, definition.storage)
    config = spec.validate(definition.storage_config)
    spec = dataclasses.replace(spec, implementation=spec.task_implementation)
    made: TaskLog = registry.build(spec, config, _paths(flight).topics / topic, partial(named_format, pipeline))
    return made


def _paths(flight: str) -> DataDir:
    return DataDir(Path(flight).parents[1])


@lru_cache(maxsize=1)
def assignment_of(flight: str) -> Assignment:
    from gauss.stream.child import assignment

    return assignment(_paths(flight))


def read_partition(plan: RangeRead, part: Range, others: Mapping[str, int]) -> Iterator[pa.RecordBatch]:
    """The records of a range, read from the outside system. Those that no longer exist are reported to the engine, also
    for the other processors that get the records. They may be used after `check_read`."""

    def missed(start: int, stop: int) -> None:
        place = place_key(part.topic, part.partition)
        for processor, generation in {**others, plan.processor: plan.generation}.items():
            engine(plan.flight).missed(Missed(processor, generation, place, part.inc, start, stop))

    _unchecked.add((plan.flight, part.topic, part.inc))
    with usable():
        log = task_log(plan.flight, part.topic)
        if part.since is not None:
            yield from _newest(log, part, part.since)
            return
        for batch in log.read(part.inc, part.partition, part.start, part.stop, missed):
            yield batch if plan.times is None else _within(batch, *plan.times)


def _newest(log: TaskLog, part: Range, since: int) -> Iterator[pa.RecordBatch]:
    """The newest record from `since` on. The last offsets may be marks of transactions, or records of aborted ones."""
    stop, width = part.stop, NEWEST_ROWS
    while since < stop:
        start = max(since, stop - width)
        if last := deque(log.read(part.inc, part.partition, start, stop, lambda *_: None), maxlen=1):
            yield last[0].slice(len(last[0]) - 1)
            return
        stop, width = start, 4 * width


def check_read() -> None:
    """Raises Rejected if a topic of which a range was read since the last call was meanwhile deleted and made anew."""
    read = sorted(_unchecked)
    _unchecked.clear()
    with usable():
        for flight, topic, inc in read:
            task_log(flight, topic).check(inc)


@contextmanager
def usable() -> Iterator[None]:
    """Raises TopicUnusable for a topic that may be created again, or allowed to this user again."""
    from gauss.contracts.shared_log import TopicUnusable

    try:
        yield
    except (NotFound, ConfigError) as error:
        raise TopicUnusable(error.message, hint=error.hint) from error


def _within(batch: pa.RecordBatch, start_ms: int, stop_ms: int | None) -> pa.RecordBatch:
    wanted = pc.greater_equal(batch.column(1), start_ms)
    return batch.filter(wanted if stop_ms is None else pc.and_(wanted, pc.less(batch.column(1), stop_ms)))


def _forget() -> None:
    _unchecked.clear()
    task_log.cache_clear()
    assignment_of.cache_clear()


FORGET.append(_forget)
