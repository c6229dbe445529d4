"""What runs inside a task: the two connectors of one partition, side by side, in the task's Python process."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from gauss import registry
from gauss.config.syncs import SyncDef
from gauss.connect.arrow_ipc import write_batch
from gauss.connect.attempt import Attempt, Outcome, Side
from gauss.connect.channel import most_in_flight
from gauss.connect.evolution import SchemaPlan
from gauss.connect.host import StreamRun
from gauss.connect.program import ProgramTransform
from gauss.connect.sides import make_side
from gauss.connect.spark.link import Link
from gauss.connect.typed import typed_error
from gauss.contracts.connector.errors import ConnectorError
from gauss.contracts.connector.host import LogLevel
from gauss.contracts.connector.json_form import encode
from gauss.contracts.connector.progress import Checkpoint, CheckpointKind, Metric
from gauss.contracts.connector.stream import StreamContext
from gauss.spark.standing import TaskPlace

TASK_LOST = "TASK_LOST"
PULSE_S = 0.25
"""How often a task asks whether it is to end, and tells its progress."""


@dataclass(frozen=True)
class TaskOrder:
    """What the tasks of an attempt are to do; sent to the executors."""

    definition: SyncDef
    base_dir: str
    data_dir: str
    stream: StreamContext
    generation: int
    link: tuple[str, int, bytes]
    partitions: list[Any]
    """One for each task."""
    staged: bool
    """Whether rows become visible at the end only, so that a partition can be written again by a second task."""
    opaque: str = ""
    schema: SchemaPlan | None = None
    program: str | None = None
    rows: pa.Schema | None = None
    """The columns of the source, for the program."""

    def side(self, role: str) -> Side:
        registry.look_in(Path(self.base_dir))
        return make_side(role, self.definition, Path(self.base_dir), Path(self.data_dir))

    def run(self, task: LinkedTask, partition: Any) -> StreamRun:
        """The run of a partition, whose state and observer are those of the coordinator."""
        return StreamRun(
            self.stream,
            task,
            task,
            pipeline=self.definition.name,
            generation=self.generation,
            partition=partition,
            opaque=self.opaque,
            schema=self.schema,
            follow=self.definition.follow,
            most_in_flight=most_in_flight(self.definition.checkpoint),
            program=ProgramTransform(self.program, self.rows) if self.program is not None else None,
        )


class LinkedTask:
    """State and observer of a task, at the coordinator. Implements `host.StateBackend` and `host.Observer`."""

    def __init__(self, link: Link, number: int) -> None:
        self.link = link
        self._number = number
        self._totals: dict[CheckpointKind, tuple[int, int]] = {}
        self._told: dict[CheckpointKind, tuple[int, int]] = {}

    def get(self, owner: str, key: str) -> bytes | None:
        found: bytes | None = self.link.call("get", owner, key)
        return found

    def put(self, owner: str, key: str, value: bytes) -> None:
        self.link.call("put", owner, key, value)

    def compare_and_set(self, owner: str, key: str, expected: bytes | None, value: bytes) -> bool:
        return bool(self.link.call("compare_and_set", owner, key, expected, value))

    def committed(self, checkpoint: Checkpoint) -> None:
        self.link.call("committed", encode(checkpoint))

    def progressed(self, kind: CheckpointKind, records: int, size: int) -> None:
        self._totals[kind] = records, size  # told by the pulse

    def logged(self, connector: str, level: LogLevel, message: str) -> None:
        self.link.call("logged", connector, int(level), message)

    def measured(self, connector: str, metric: Metric) -> None:
        self.link.call("measured", self._number, connector, encode(metric))

    def rejected(self, kind: CheckpointKind, rows: pa.RecordBatch, error: ConnectorError, ids: list[str]) -> None:
        self.link.call("rejected", kind, write_batch(rows), error.to_json(), ids)

    def settle_rejected(self) -> None:
        self.link.call("settle_rejected")

    def tell(self) -> bool:
        """Tells the progress since the last time; whether the source is to end."""
        new = {kind: total for kind, total in self._totals.items() if self._told.get(kind) != total}
        self._told |= new
        self.link.call("pulse", self._number, [(kind, *total) for kind, total in new.items()])
        return self.link.draining


class Pulse:
    """While it is open, a thread tells the progress of an attempt, and ends it if the coordinator asks for it or
    is gone."""

    def __init__(self, task: LinkedTask, attempt: Attempt) -> None:
        self._task, self._attempt = task, attempt
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="pulse", daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _beat(self) -> None:
        try:
            while not self._over.wait(PULSE_S):
                if self._task.tell():
                    self._attempt.drain()
            self._task.tell()
        except ConnectorError as error:
            self._attempt.break_off(error)


class StreamTask:
    """Moves one partition. Implements `spark.standing.TaskLoop`."""

    def __init__(self, order: TaskOrder, place: TaskPlace) -> None:
        self._order, self._place = order, place
        self._link: Link | None = None

    def step(self) -> bool:
        order, number = self._order, self._place.task
        try:
            self._link = Link(order.link)
        except ConnectorError:
            return False  # nobody waits for the result
        outcome = Outcome(error=lost()) if self._place.attempt and not order.staged else self._moved(self._link)
        try:
            self._link.call("finished", number, outcome_json(outcome))
        except ConnectorError:
            pass
        return False

    def _moved(self, link: Link) -> Outcome:
        try:
            order, task = self._order, LinkedTask(link, self._place.task)
            run = order.run(task, order.partitions[self._place.task])
            attempt = Attempt(run, order.side("source"), order.side("destination"))
            with Pulse(task, attempt):
                return attempt()
        except Exception as error:  # such as a connector that is not installed there
            return Outcome(error=typed_error(error))

    def close(self) -> None:
        if self._link is not None:
            self._link.close()


def make_task(order: TaskOrder, place: TaskPlace) -> StreamTask:
    return StreamTask(order, place)


def lost() -> ConnectorError:
    """A task that Spark has started again can't know what the one before it has committed."""
    return ConnectorError.transient_network(TASK_LOST, "the process of a task was lost")


def outcome_json(outcome: Outcome) -> list[bytes | None]:
    return [
        None if outcome.read is None else msgspec.json.encode(outcome.read),
        None if outcome.write is None else msgspec.json.encode(outcome.write),
        None if outcome.error is None else outcome.error.to_json(),
    ]
