"""The driver's queries: started, watched, each restarted alone when it fails."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar

from gauss.config.spec import Pipeline, ProcessorDef, SourceRef
from gauss.config.topics import topics_of
from gauss.model.errors import ConfigError, GaussError
from gauss.model.paths import DataDir
from gauss.stream.client import EngineClient
from gauss.stream.driver import compile as compiling
from gauss.stream.driver import detect
from gauss.stream.driver.checkpoint import Checkpoint
from gauss.stream.driver.errors import is_transient, sentence
from gauss.stream.driver.fingerprint import plan_hash
from gauss.stream.driver.plan import STATEFUL_MS, FieldRef, ReadPlan, WritePlan, encode_fields
from gauss.stream.driver.reading import rows_of
from gauss.stream.driver.skipping import Skipping, half_done
from gauss.stream.protocol import Claim, Claimed, DriverCommand, QueryStatus

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MAX_FAILURES = 5
MAX_PAUSE_S = 15.0
LOADING = "loading its state"
log = logging.getLogger(__name__)


class State(StrEnum):
    STARTING = "starting"
    RUNNING = "running"
    WAITING = "waiting"  # for its next try
    FAILED = "failed"


@dataclass
class Context:
    """What every query of the run shares."""

    session: SparkSession
    client: EngineClient
    pipeline: Pipeline
    data_dir: DataDir
    flight: str


@dataclass
class Query:
    """One processor on Spark."""

    skips_whole: ClassVar[bool] = False
    """Whether a skip leaves out the whole epoch: what its tasks have done of it can't be told apart by records."""

    context: Context
    processor: ProcessorDef
    state: State = State.STARTING
    detail: str = ""
    failures: int = 0
    epoch: int = -1
    batch_rows: int = 0
    batch_ms: int = 0
    rows_per_second: float = 0.0
    _failed_epoch: int | None = None
    _at_epoch: int = 0
    """How often it failed there."""
    _next_try: float = 0.0
    _shown: bool = False
    _running: Any = None
    _claimed: Claimed | None = None
    _design: compiling.Design | None = None
    _state: str | None = None
    """What its Spark plan keeps; None: not looked at yet."""

    def __post_init__(self) -> None:
        self._skipping = Skipping(self.name, self.context.client, whole=self.skips_whole)
        self._renew()

    def _renew(self) -> None:
        self.checkpoint = Checkpoint(self.context.data_dir, self.processor.name, self._hash())
        self._identity = ""

    def _hash(self) -> str:
        """Of all that its checkpoint depends on."""
        return plan_hash(self.context.pipeline, self.processor, self._state or "")

    @property
    def names(self) -> list[str]:
        """The processors whose commands it obeys."""
        return [self.name]

    @property
    def name(self) -> str:
        return self.processor.name

    @property
    def runs(self) -> str:
        """How its work is done, once that is known."""
        return self._design.runs if self._design is not None else ""

    @property
    def _targets(self) -> list[str]:
        return topics_of(self.processor)[1]

    @property
    def _sources(self) -> list[SourceRef]:
        return topics_of(self.processor)[0]

    def tick(self) -> None:
        """One look: starts what is due, notices progress and failure."""
        if self._running is None:
            if self.state is not State.FAILED and time.monotonic() >= self._next_try:
                self._try_start()
        elif not self._running.isActive:
            error = self._running.exception()
            self._running = None
            self._fail(error if error is not None else "the query ended by itself")
        else:
            self._look()

    def _try_start(self) -> None:
        try:
            if self._loads():
                return
            self._start()
        except ConfigError as error:
            self.state, self.detail = State.FAILED, sentence(error)
            if error.hint:
                self.detail += f" ({error.hint})"
            log.error("%s: %s", self.name, self.detail)
        except Exception as error:
            self._fail(error)

    def _loads(self) -> bool:
        """Whether it has yet to be told that a state is loaded: nothing else is told while it is."""
        if self._design is None:
            self._design = compiling.design(self.context.pipeline, self.processor)
        if self._design.state is None or self._shown or self.failures:
            return False
        self.state, self.detail = State.STARTING, f"{LOADING}, kept in topic {self._design.state.topic}"
        return True

    def _start(self) -> None:
        if self._design is None:
            self._design = compiling.design(self.context.pipeline, self.processor)
        stateful = self._keeps_state(self._design)
        if self._claimed is None:
            self._claimed = self._claim(stateful)
        kinds = self._kinds(self._design, self._claimed)
        if kinds is None:
            # It is up: there is nothing to do, or to fail at, before the first record.
            self._forget_failures()
            self._began("detecting: waits for the first records to see what kinds their fields have")
            return
        section = self.context.pipeline.spark
        fields = self._design.decided(kinds)
        self._restore(self._design, self._claimed, fields)
        read = ReadPlan(
            flight=self.context.flight,
            processor=self.name,
            generation=self._claimed.generation,
            start=self._claimed.start,
            read=self._sources[0].read,
            format=self._design.input,
            fields=encode_fields(fields),
            max_rows=min(section.max_batch_rows, self._skipping.max_rows or section.max_batch_rows),
            max_bytes=section.max_batch_bytes,
            # A batch with state has a higher fixed cost: aimed at too short a time, batches would only shrink.
            target_ms=max(section.target_batch_ms, STATEFUL_MS if stateful else 0),
            time=compiling.time_plan(self._design, fields, self.checkpoint.restored),
        )
        write = WritePlan(
            flight=self.context.flight,
            processor=self.name,
            generation=self._claimed.generation,
            checkpoint=self._identity,
            checkpoint_dir=str(self.checkpoint.spark),
            target=self.processor.target.topic if self.processor.target else "",
            format=self._design.output,
            routes=[] if self.processor.target else self._targets,
            state=self._design.state,
        )
        write = self._chained(read, write, self._claimed)
        self.checkpoint.mark_started(self._state or "")
        self._running = compiling.start(self.context.session, read, write, self._design)
        table = self._design.ref.table
        self._began(f"loading table {table.topic} with its first records" if table else "")

    def _began(self, detail: str) -> None:
        """It runs. After a failure that failure is shown until an epoch has passed: a start is no progress."""
        self.state = State.RUNNING
        if not self.failures:
            self.detail = detail

    def _keeps_state(self, design: compiling.Design) -> bool:
        """As its plugin declares, or else as Spark's plan of it says; its checkpoint is then that of this state."""
        if design.stateful or design.hosted is not None:
            return design.stateful
        if self._state is None:
            from gauss.stream.driver.state_plan import kept_state

            self._state = kept_state(self.context.session, design)
            if self._state:
                log.info("%s keeps state: %s", self.name, self._state)
                self._renew()
        return bool(self._state)

    def _claim(self, stateful: bool) -> Claimed:
        """A new generation: whatever an earlier start left running is refused from now on."""
        self._identity = self.checkpoint.open()
        sources = [source.topic for source in self._sources]
        state = self._design.state.topic if self._design is not None and self._design.state is not None else ""
        claim = Claim(self.name, self._identity, sources, self._targets, stateful, state)
        try:
            claimed = self.context.client.claim(claim)
        except ConfigError as error:
            if not stateful or not self.checkpoint.replaces_another():
                raise
            raise ConfigError(
                f'processor "{self.name}" is not what it was in its last run (its config, a format or a topic), and its'
                " state fits only that",
                hint=error.hint.replace("put the checkpoint folder back", "undo the change"),
            ) from error
        if not claimed.known:
            # Another checkpoint was in use meanwhile: what this one holds is out of date.
            self.checkpoint.clear()
        return claimed

    def _chained(self, read: ReadPlan, write: WritePlan, claimed: Claimed) -> WritePlan:  # noqa: ARG002
        """The writer's plan, with those that go on in the same tasks."""
        return write

    def _inlets(self) -> set[str]:
        """Sources that are not its own."""
        return set()

    def _all_targets(self) -> list[str]:
        """Every topic that its publish names."""
        return self._targets

    def _restore(self, design: compiling.Design, claimed: Claimed, fields: list[FieldRef]) -> None:
        """The state that a fresh checkpoint begins with, from the topic in which it was kept; fixed before the first
        batch, since that is run again if it fails."""
        if design.state is not None and claimed.epoch < 0 and self.checkpoint.planned() is None:
            from gauss.stream.driver.kept import restore

            restore(self.context.client, design, fields, self.checkpoint.restored)

    def _kinds(self, design: compiling.Design, claimed: Claimed) -> dict[str, FieldRef] | None:
        """Types of undecided fields; None while there is no record to look at."""
        if not design.undecided:
            return {}
        known = detect.load(self.checkpoint.kinds)
        if all(name in known for name in design.undecided):
            return known
        records = detect.sample(self.context.client, self.name, claimed, self._inlets())
        if not records:
            return None
        assert design.input is not None
        found = detect.decide(design.undecided, records, design.input.build())
        detect.save(self.checkpoint.kinds, found)
        log.info("%s: decided %s", self.name, {name: ref.type for name, ref in found.items()})
        return found

    def _fail(self, error: BaseException | str) -> None:
        """Tries again later. Failures at one epoch that do not end by themselves are counted; after some of them a
        person must decide."""
        self._claimed = None
        self.failures += 1
        self.detail = sentence(error)
        self.state = State.WAITING
        self._next_try = time.monotonic() + min(MAX_PAUSE_S, 0.5 * 2 ** min(self.failures - 1, 5))
        if is_transient(error):
            log.warning("%s waits (%d): %s", self.name, self.failures, self.detail)
            return
        log.error("%s failed (%d): %s\n%s", self.name, self.failures, self.detail, error)
        if self._skipping.max_rows and self._narrow():
            return
        epoch = self.checkpoint.planned()
        self._at_epoch = self._at_epoch + 1 if epoch == self._failed_epoch else 1
        self._failed_epoch = epoch
        if self._at_epoch >= MAX_FAILURES:
            self.state, self.detail = State.FAILED, f"{self.detail} ({self._choices()})"

    def _narrow(self) -> bool:
        """Goes on with a skip; what it fails at becomes smaller each time."""
        try:
            self._skip(self.detail)
        except Exception as error:
            log.error("%s can't skip: %s", self.name, sentence(error))
            return False
        self._claimed, self._next_try = None, 0.0
        self.detail = f"looks for what it fails at: {self.detail}"
        return True

    def _choices(self) -> str:
        retry = f"once the cause is gone: gauss processors retry {self.name}"
        if self._design is not None and (self._design.stateful or self._state):
            return retry  # a batch that is left out would tear its state
        return f"{retry}; or send what it fails at to the dead letters: gauss processors skip {self.name}"

    def _look(self) -> None:
        progress = self._running.lastProgress
        if progress is None:
            return
        batch = int(progress["batchId"])
        done = progress["numInputRows"] > 0
        failed = -1 if self._failed_epoch is None else self._failed_epoch
        if self.failures and (batch > failed or (done and batch == failed)):
            self._forget_failures()
            self.detail = ""
        if done and batch != self.epoch:
            self.epoch, self.detail = batch, ""
            self.batch_rows = self._rows(progress)
            self.batch_ms = int(progress["durationMs"].get("triggerExecution", 0))
            if self._skipping.is_over(self.checkpoint):
                self.stop()  # starts again, with epochs of any size
                return
        self.rows_per_second = self.batch_rows / max(self.batch_ms, 1) * 1000 if done else 0.0

    def _forget_failures(self) -> None:
        self.failures, self._at_epoch, self._failed_epoch = 0, 0, None

    def _rows(self, progress: Any) -> int:
        return rows_of(progress, self._claimed.start if self._claimed else {}, self._sources[0].read)

    def obey(self, command: DriverCommand) -> None:
        """retry, skip or stop, as a person asked."""
        log.info("%s: %s", self.name, command.action)
        if command.action == "stop":
            self.stop()
            self.state, self.detail = State.FAILED, "stopped on request"
            return
        self.stop()
        try:
            if command.action == "skip":
                self._skip(self.detail.removesuffix(f" ({self._choices()})"))
        except GaussError as error:
            self.detail = error.message
            log.error("%s: %s", self.name, error.message)
            if self.state is State.FAILED:
                return
        self._forget_failures()
        self._next_try = 0.0
        self._design, self._claimed = None, None
        self.state = State.STARTING

    def _skip(self, why: str) -> None:
        checkpoint, epoch = self.checkpoint, half_done(self.checkpoint)
        claimed = self._claim(stateful=False)
        if self.checkpoint is checkpoint and checkpoint.planned() == epoch:  # else the claim has begun another
            self._skipping.narrow(checkpoint, claimed, self._all_targets(), why)

    def stop(self) -> None:
        """Ends the query after the batch it is in, or within Spark's stop timeout."""
        running, self._running = self._running, None
        self._claimed = None
        if running is not None:
            try:
                running.stop()
            except Exception as error:
                log.warning("%s did not stop in time: %s", self.name, sentence(error))

    def close(self) -> None:
        """Ends it for good."""
        self.stop()

    def statuses(self) -> list[QueryStatus]:
        """What is known of each processor that it runs."""
        return [self.status()]

    def status(self) -> QueryStatus:
        self._shown = self.detail.startswith(LOADING)
        trouble = self.state in (State.WAITING, State.FAILED)
        return QueryStatus(
            processor=self.name,
            state=self.state.value,
            detail=self.detail,
            epoch=self.epoch,
            batch_rows=self.batch_rows,
            batch_ms=self.batch_ms,
            rows_per_second=self.rows_per_second,
            failures=self.failures,
            runs=self.runs,
            trace=str(self.context.data_dir.logs / "driver.log") if trouble else "",
        )
