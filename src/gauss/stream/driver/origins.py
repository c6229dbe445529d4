"""What an epoch has for its topics, and where those bytes lie already: what the engine has is named, not sent again."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from gauss.stream.driver.outbox import Outbox
from gauss.stream.protocol import Passed

LEAST_PASSED = 64 << 10
"""Fewer bytes are sent sooner than the engine looks them up in their topic."""


@dataclass(frozen=True)
class Place:
    """Where the bytes of some records lie already: rows of a stage of this epoch, or offsets of a topic."""

    name: str
    inc: int
    rows: pa.Array

    def of(self, rows: pa.Array) -> Place:
        """Some of them; what passes keeps its order, so that as many are the same."""
        return self if len(rows) == len(self.rows) else replace(self, rows=self.rows.take(rows))


class Origin(NamedTuple):
    """Where some records lie: in a topic that stays as it is, in a stage, in both or nowhere."""

    topic: Place | None = None
    stage: Place | None = None

    def of(self, rows: pa.Array) -> Origin:
        return Origin(self.topic and self.topic.of(rows), self.stage and self.stage.of(rows))


NOWHERE = Origin()


@dataclass
class Kept:
    """What an epoch has for one topic."""

    stage: str = field(default_factory=lambda: uuid.uuid4().hex)
    batches: list[pa.RecordBatch] = field(default_factory=list)
    origins: list[Origin] = field(default_factory=list)
    """Where each of the batches lies."""
    rows: int = 0
    passed: bool = False
    """Whether the engine takes the bytes from their topic."""

    def add(self, batch: pa.RecordBatch, origin: Origin) -> int:
        """Adds records; gives the place of the first."""
        first, self.rows = self.rows, self.rows + batch.num_rows
        self.batches.append(batch)
        self.origins.append(origin)
        return first

    def put(self, topic: str, outbox: Outbox, stages: Mapping[str, Kept]) -> None:
        """Stages it; bytes that the engine has are not sent again."""
        found = _whole_place([origin.topic for origin in self.origins])
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
        found = _whole_place([origin.stage for origin in self.origins])
        if found is not None and not stages[found.name].passed:
            whole = self.rows == stages[found.name].rows
            columns = [pa.concat_arrays([batch.column(0) for batch in self.batches]), pa.array(found.rows)]
            named = [] if whole else [pa.RecordBatch.from_arrays(columns, names=["ts_ms", "row"])]
            outbox.put(topic, named, name=self.stage, parent=found.name, whole=whole)
            return
        outbox.put(topic, self.batches, name=self.stage)


class _Whole(NamedTuple):
    name: str
    inc: int
    rows: np.ndarray


def _whole_place(places: list[Place | None]) -> _Whole | None:
    """The one stage or topic in which all lie, in this order."""
    known = [place for place in places if place is not None]
    if not known or len(known) < len(places) or len({(place.name, place.inc) for place in known}) > 1:
        return None
    rows = np.concatenate([place.rows.to_numpy() for place in known])
    return _Whole(known[0].name, known[0].inc, rows) if (np.diff(rows) > 0).all() else None
