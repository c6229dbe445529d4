"""The results of an epoch by topic; bytes that the engine already has are named by their location, not sent again."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from gauss.clients.engine.client import STAGE_SCHEMA
from gauss.clients.engine.task_messages import Passed
from gauss.stream.driver.tasks.outbox import Outbox

LEAST_PASSED = 64 << 10
"""Minimum size of results that are named instead of sent: below it, sending is faster than a look-up by the engine."""


@dataclass(frozen=True)
class Location:
    """Where the bytes of records are: rows of a stage of this epoch, or offsets of a topic."""

    name: str
    inc: int
    rows: pa.Array

    def of(self, rows: pa.Array) -> Location:
        """The location of some of the records, in the same order."""
        return self if len(rows) == len(self.rows) else replace(self, rows=self.rows.take(rows))


class Locations(NamedTuple):
    """Where the bytes of records are: in a topic that keeps them, in a stage, in both or in neither."""

    topic: Location | None = None
    stage: Location | None = None

    def of(self, rows: pa.Array) -> Locations:
        return Locations(self.topic and self.topic.of(rows), self.stage and self.stage.of(rows))


NOWHERE = Locations()


@dataclass
class TopicResults:
    """The results of an epoch for one topic."""

    stage: str = field(default_factory=lambda: uuid.uuid4().hex)
    batches: list[pa.RecordBatch] = field(default_factory=list)
    locations: list[Locations] = field(default_factory=list)
    """One for each batch."""
    rows: int = 0
    passed: bool = False
    """Whether the engine takes the bytes from a topic."""

    def add(self, batch: pa.RecordBatch, at: Locations) -> int:
        """Adds records and returns the row number of the first."""
        first, self.rows = self.rows, self.rows + batch.num_rows
        self.batches.append(batch)
        self.locations.append(at)
        return first

    def put(self, topic: str, outbox: Outbox, stages: Mapping[str, TopicResults]) -> None:
        """Stages the results."""
        found = _whole_place([each.topic for each in self.locations])
        if found is not None:
            start, stop, size = int(found.rows[0]), int(found.rows[-1]) + 1, sum(batch.nbytes for batch in self.batches)
            whole = stop - start == self.rows
            if size >= (LEAST_PASSED if whole else max(LEAST_PASSED, 4 * found.rows.nbytes)):
                self.passed = True
                named = [] if whole else [pa.RecordBatch.from_arrays([pa.array(found.rows)], names=["offset"])]
                outbox.put(
                    topic, named, name=self.stage, passed=Passed(found.name, found.inc, start, stop), whole=whole
                )
                return
        found = _whole_place([each.stage for each in self.locations])
        if found is not None and not stages[found.name].passed:
            whole = self.rows == stages[found.name].rows
            columns = [pa.concat_arrays([batch.column(0) for batch in self.batches]), pa.array(found.rows)]
            named = [] if whole else [pa.RecordBatch.from_arrays(columns, names=["ts_ms", "row"])]
            outbox.put(topic, named, name=self.stage, parent=found.name, whole=whole)
            return
        records = [batch.select(STAGE_SCHEMA.names) for batch in self.batches]  # a topic of the engine has no keys
        outbox.put(topic, records, name=self.stage)


class _Whole(NamedTuple):
    name: str
    inc: int
    rows: np.ndarray


def _whole_place(places: list[Location | None]) -> _Whole | None:
    """The single stage or topic that has all records in this order, if there is one."""
    known = [place for place in places if place is not None]
    if not known or len(known) < len(places) or len({(place.name, place.inc) for place in known}) > 1:
        return None
    rows = np.concatenate([place.rows.to_numpy() for place in known])
    return _Whole(known[0].name, known[0].inc, rows) if (np.diff(rows) > 0).all() else None
