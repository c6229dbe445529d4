"""Streaming queries for processors that need Spark's own operators. Each is restarted separately when it fails."""

from __future__ import annotations

import logging
from typing import Any

from gauss.clients.engine.driver_messages import DriverCommand, QueryStatus
from gauss.clients.engine.task_messages import Claim, Claimed
from gauss.config.spec import ProcessorDef, SourceRef
from gauss.config.topics import topics_of
from gauss.model.errors import ConfigError, GaussError
from gauss.model.names import retry_topic
from gauss.stream.driver.errors import sentence
from gauss.stream.driver.planning import detect
from gauss.stream.driver.planning.checkpoint import Checkpoint
from gauss.stream.driver.planning.fingerprint import plan_hash
from gauss.stream.driver.planning.outside import outside, outside_sources
from gauss.stream.driver.planning.reads import STATEFUL_MS, ReadRecords
from gauss.stream.driver.planning.refs import FieldRef, encode_fields
from gauss.stream.driver.planning.writes import WriteRows
from gauss.stream.driver.queries import compile as compiling
from gauss.stream.driver.queries.skipping import Skipping, half_done
from gauss.stream.driver.supervised import DETECTING, Context, Supervised, WorkState
from gauss.stream.driver.tasks.reading import rows_of

LOADING = "loading its state"
log = logging.getLogger(__name__)


class Query(Supervised):
    """One processor that runs as a Spark streaming query."""

    def __init__(self, context: Context, processor: ProcessorDef) -> None:
        super().__init__(context, processor.name)
        self.processor = processor
        self.epoch, self.batch_rows, self.batch_ms = -1, 0, 0
        self.rows_per_second = 0.0
        self._shown = False
        self._running: Any = None
        self._claimed: Claimed | None = None
        self._design: compiling.Design | None = None
        self._state: str | None = None
        """The state in its Spark plan; None before the plan is analyzed."""
        self._skipping = Skipping(self.name, context.client)
        self._renew_checkpoint()

    def _renew_checkpoint(self) -> None:
        found = plan_hash(self.context.pipeline, self.processor, self._state or "")
        self.checkpoint = Checkpoint(self.context.data_dir, self.name, found)
        self._identity = ""

    @property
    def names(self) -> list[str]:
        return [self.name]

    @property
    def runs(self) -> str:
        """How it runs (a key of `explain.RUNS`); empty while unknown."""
        return self._design.runs if self._design is not None else ""

    @property
    def _targets(self) -> list[str]:
        return topics_of(self.processor)[1]

    @property
    def _sources(self) -> list[SourceRef]:
        return topics_of(self.processor)[0]

    @property
    def keeps_state(self) -> bool:
        return self._design is not None and bool(self._design.stateful or self._state)

    @property
    def is_started(self) -> bool:
        return self._running is not None

    # --- starting ---

    def start(self) -> None:
        session = self.context.spark.session  # before the design: a transform may ask Spark which fields its query uses
        design = self._designed()
        if self._loads(design):
            return
        stateful = self._finds_state(design)
        if self._claimed is None:
            self._claimed = self._claim(stateful)
        kinds = self._kinds(design)
        if kinds is None:
            # Without records nothing can fail.
            self.forget_failures()
            self.began(DETECTING)
            return
        section = self.context.pipeline.spark
        fields = design.decided(kinds)
        self._restore(design, self._claimed, fields)
        read = ReadRecords(
            flight=self.context.flight,
            processor=self.name,
            generation=self._claimed.generation,
            start=self._claimed.start,
            mode=self._sources[0].read,
            format=design.input,
            fields=encode_fields(fields),
            max_rows=min(section.max_batch_rows, self._skipping.max_rows or section.max_batch_rows),
            max_bytes=section.max_batch_bytes,
            # A batch with state has a higher fixed cost: with a shorter target, batches would only shrink.
            target_ms=max(section.target_batch_ms, STATEFUL_MS if stateful else 0),
            outside=outside_sources(self.context.pipeline, self._sources),
            times=self._claimed.times,
        )
        write = WriteRows(
            flight=self.context.flight,
            processor=self.name,
            generation=self._claimed.generation,
            checkpoint=self._identity,
            checkpoint_dir=str(self.checkpoint.spark),
            series=self.checkpoint.series,
            target=self.processor.target.topic if self.processor.target else "",
            format=design.output,
            routes=[] if self.processor.target else self._targets,
            outside=outside(self.context.pipeline, self._targets),
        )
        self.checkpoint.mark_started(self._state or "")
        timed = compiling.by_time(read, design, fields, self.checkpoint.restored)
        self._running = compiling.start(session, timed, write, design)
        self.began()

    def _designed(self) -> compiling.Design:
        if self._design is None:
            self._design = compiling.design(self.context.pipeline, self.processor)
        return self._design

    def _loads(self, design: compiling.Design) -> bool:
        """Whether the status has to show LOADING first: no status is reported while the state is loaded."""
        if design.state is None or self._shown or self.failures:
            return False
        self.state, self.detail = WorkState.STARTING, f"{LOADING} from topic {design.state.topic}"
        return True

    def _finds_state(self, design: compiling.Design) -> bool:
        """Whether it is stateful, as its plugin declares or else as its Spark plan shows. State in the plan selects the
        checkpoint."""
        if design.stateful:
            return True
        if self._state is None:
            from gauss.stream.driver.queries.state_plan import kept_state

            self._state = kept_state(self.context.spark.session, design)
            if self._state:
                log.info("%s is stateful: %s", self.name, self._state)
                self._renew_checkpoint()
        return bool(self._state)

    def _claim(self, stateful: bool) -> Claimed:
        """Claims a new generation, which fences everything that an earlier start left running."""
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
                f'processor "{self.name}" has changed since its last run (its config, a format or a topic), and its'
                " state does not fit the change",
                hint=error.hint.replace("restore the checkpoint folder", "undo the change"),
            ) from error
        if not claimed.known:
            # Another checkpoint was in use in the meantime, so this one is outdated.
            self.checkpoint.clear()
        return claimed

    def _restore(self, design: compiling.Design, claimed: Claimed, fields: list[FieldRef]) -> None:
        """Restores the state of a fresh checkpoint from its state topic. Done before the first batch, which has to read
        the same state when it is retried."""
        if design.state is not None and claimed.epoch < 0 and self.checkpoint.planned() is None:
            from gauss.stream.driver.queries.state_topic import restore

            restore(self.context.client, design, fields, self.checkpoint.restored)

    def _kinds(self, design: compiling.Design) -> dict[str, FieldRef] | None:
        """Types of undecided fields; None while there is no record to sample."""
        topics = [source.topic for source in self._sources]
        return detect.kinds(
            self.context.client, self.name, [*topics, retry_topic(self.name)], design, self.checkpoint.kinds
        )

    # --- watching ---

    def watch(self) -> None:
        if self._running.isActive:
            self._look()
            return
        error = self._running.exception()
        self._running = None
        self.fail(error if error is not None else "the query ended unexpectedly")

    def _look(self) -> None:
        progress = self._running.lastProgress
        if progress is None:
            return
        batch = int(progress["batchId"])
        done = progress["numInputRows"] > 0
        failed = -1 if self._failed_at is None else self._failed_at
        if self.failures and (batch > failed or (done and batch == failed)):
            self.forget_failures()
            self.detail = ""
        if done and batch != self.epoch:
            self.epoch, self.detail = batch, ""
            self.batch_rows = rows_of(progress, self._claimed.start if self._claimed else {}, self._sources[0].read)
            self.batch_ms = int(progress["durationMs"].get("triggerExecution", 0))
            if self._skipping.is_over(self.checkpoint):
                self.stop()  # the next start has no limit on the size of epochs
                return
        self.rows_per_second = self.batch_rows / max(self.batch_ms, 1) * 1000 if done else 0.0

    def fail(self, error: BaseException | str) -> None:
        self._claimed = None
        super().fail(error)

    def epoch_reached(self) -> int | None:
        return self.checkpoint.planned()

    def continues(self) -> bool:
        """Whether a skip is in progress, which halves the failing epoch each time."""
        if not self._skipping.max_rows:
            return False
        try:
            self._skip(self.detail)
        except Exception as error:
            log.error("%s: skip failed: %s", self.name, sentence(error))
            return False
        self._claimed, self._next_try = None, 0.0
        self.detail = f"skip: searching for the failing records: {self.detail}"
        return True

    # --- commands ---

    def execute(self, command: DriverCommand) -> None:
        """Executes a user's `retry`, `skip` or `stop`."""
        if command.action != "skip":
            super().execute(command)
            return
        log.info("%s: skip", self.name)
        self.stop()
        try:
            self._skip(self.detail.removesuffix(f" ({self.choices()})"))
        except GaussError as error:
            self.detail = error.message
            log.error("%s: %s", self.name, error.message)
            if self.state is WorkState.FAILED:
                return
        self.renew()

    def renew(self) -> None:
        super().renew()
        self._design, self._claimed = None, None

    def _skip(self, why: str) -> None:
        checkpoint, epoch = self.checkpoint, half_done(self.checkpoint)
        claimed = self._claim(stateful=False)
        if self.checkpoint is checkpoint and checkpoint.planned() == epoch:  # else the claim began another
            whole = bool(outside(self.context.pipeline, self._targets))
            self._skipping.narrow(checkpoint, claimed, self._targets, why, whole=whole)

    def stop(self) -> None:
        """Stops the query after its current batch, or within Spark's stop timeout."""
        running, self._running = self._running, None
        self._claimed = None
        if running is not None:
            try:
                running.stop()
            except Exception as error:
                log.warning("%s did not stop in time: %s", self.name, sentence(error))

    def statuses(self) -> list[QueryStatus]:
        self._shown = self.detail.startswith(LOADING)
        found = self.status(self.runs)
        found.epoch, found.batch_rows, found.batch_ms = self.epoch, self.batch_rows, self.batch_ms
        found.rows_per_second = self.rows_per_second
        return [found]
