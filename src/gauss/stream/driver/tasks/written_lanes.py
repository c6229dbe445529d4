"""Writes the epochs of a task to topics in outside systems, each once."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import pyarrow as pa

from gauss.clients.engine.positions import Ends, places
from gauss.clients.engine.task_messages import StillClaimed
from gauss.contracts.letter import Letter, too_large
from gauss.model.errors import Fenced
from gauss.stream.driver.tasks.outside_topics import assignment_of, task_log, usable
from gauss.stream.driver.tasks.reading import FORGET, engine

if TYPE_CHECKING:
    from gauss.contracts.shared_log import LaneWriter


class Lane(NamedTuple):
    """One of the sequences of transactions in which the tasks of a processor write to a topic."""

    flight: str
    processor: str
    topic: str
    number: int


class Written(NamedTuple):
    """What of an epoch was written to a topic."""

    nbytes: int
    letters: list[Letter]
    """Dead letters of the records that were too large."""

    @classmethod
    def of(cls, topic: str, batches: Sequence[pa.RecordBatch], refused: Sequence[pa.RecordBatch]) -> Written:
        nbytes = sum(batch.nbytes for batch in batches) - sum(batch.nbytes for batch in refused)
        return cls(nbytes, [letter for batch in refused for letter in too_large(batch, topic)])


_writers: dict[Lane, LaneWriter] = {}
"""The lanes that this process has open."""


def epoch_name(ends: Ends) -> dict[str, Any]:
    """A name for the records up to these ends; an epoch that is granted again has the same."""
    given = {key: (at.inc, at.off) for key, at in places(ends).items()}
    return {"epoch": hashlib.sha256(msgspec.json.encode(given, order="sorted")).hexdigest()[:32]}


def is_written(lane: Lane, generation: int, name: Mapping[str, Any]) -> bool:
    """Whether an epoch is in a lane."""
    with _lane(lane, generation) as writer:
        return writer.committed() == name


def write_lane(
    lane: Lane, generation: int, batches: Sequence[pa.RecordBatch], name: Mapping[str, Any], *, again: bool
) -> Written:
    """Commits the records of an epoch in one transaction. `again`: only if an earlier attempt has not done so.

    Raises Fenced for a late attempt: the generation was replaced, or a later epoch of the query is in the lane.
    """
    refused: list[pa.RecordBatch] = []
    with _lane(lane, generation) as writer:
        found = writer.committed()
        if found is not None and _is_later(found, name):
            raise Fenced(
                f'processor "{lane.processor}", topic "{lane.topic}": lane {lane.number} has'
                f" {found['epoch']}, which is later than {name['epoch']}",
                hint="another attempt of this task has taken over; this one must end",
            )
        if again and found == name:
            writer.repeat(batches, refused.append)
        else:
            writer.write(batches, name, refused.append)
    return Written.of(lane.topic, batches, refused)


@contextmanager
def _lane(lane: Lane, generation: int) -> Iterator[LaneWriter]:
    """The open writer of a lane. After an error it is closed, and opened again the next time."""
    try:
        with usable():
            yield _writers.get(lane) or _opened(lane, generation)
    except BaseException:
        if (opened := _writers.pop(lane, None)) is not None:
            opened.close()
        raise


def _opened(lane: Lane, generation: int) -> LaneWriter:
    """Opens a lane. That fences whoever had it open, who may be a successor of this task: so the engine is asked
    whether there is one. A later one opens the lane later."""
    since_ms = assignment_of(lane.flight).started_ms
    made = _writers[lane] = task_log(lane.flight, lane.topic).lane(lane.processor, lane.number, since_ms)
    engine(lane.flight).check_claim(StillClaimed(lane.processor, generation))
    return made


def _is_later(found: Mapping[str, Any], name: Mapping[str, Any]) -> bool:
    """Whether a lane's last epoch and another one are of the same query, and the former has the larger number."""
    (series, last), (own, number) = _numbered(found), _numbered(name)
    return bool(series) and series == own and last > number


def _numbered(name: Mapping[str, Any]) -> tuple[str, int]:
    """The parts of `QueryWrite.epoch_name`; the series is empty for epochs of standing tasks."""
    series, _, number = str(name.get("epoch", "")).rpartition("/")
    return series, int(number) if series else 0


def _forget() -> None:
    while _writers:
        _writers.popitem()[1].close()


FORGET.append(_forget)
