"""Supervision of work on Spark: starts it, watches it, and restarts it with exponential backoff after a failure."""

from __future__ import annotations

import logging
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from gauss.clients.engine.client import EngineClient
from gauss.clients.engine.driver_messages import DriverCommand, QueryStatus
from gauss.config.spec import Pipeline
from gauss.model.errors import ConfigError
from gauss.model.paths import DataDir
from gauss.stream.driver.errors import is_transient, sentence

if TYPE_CHECKING:
    from gauss.spark.session import Spark

MAX_FAILURES = 5
MAX_PAUSE_S = 15.0
DETECTING = "detecting: waits for the first records to determine the types of their fields"
log = logging.getLogger(__name__)


class WorkState(StrEnum):
    STARTING = "starting"
    RUNNING = "running"
    WAITING = "waiting"  # for its next attempt
    FAILED = "failed"


@dataclass
class Context:
    """The Spark session, engine client, config and paths that all work of a run shares."""

    spark: Spark
    client: EngineClient
    pipeline: Pipeline
    data_dir: DataDir
    flight: str


class Supervised(ABC):
    """A supervised unit of work: a streaming query or a standing job."""

    def __init__(self, context: Context, name: str) -> None:
        self.context, self.name = context, name
        self.state = WorkState.STARTING
        self.detail = ""
        self.failures = 0
        self._failed_at: int | None = None
        self._at_epoch = 0
        """Number of failures at epoch `_failed_at`."""
        self._next_try = 0.0
        self.is_passing = False
        """Whether its last failure is transient, such as an unavailable server."""

    # --- implemented by each kind of work ---

    @property
    @abstractmethod
    def names(self) -> list[str]:
        """Names of the processors that it runs; commands for them apply to it."""

    @property
    @abstractmethod
    def is_started(self) -> bool:
        """Whether it has been started and not yet ended."""

    @abstractmethod
    def start(self) -> None:
        """Starts the work. Raises ConfigError if the config makes it impossible."""

    @abstractmethod
    def watch(self) -> None:
        """Checks the started work; calls `fail` if it has ended."""

    @abstractmethod
    def stop(self) -> None:
        """Stops the work after its current epoch."""

    @abstractmethod
    def epoch_reached(self) -> int | None:
        """The newest epoch, which grows with progress: failures are counted per epoch."""

    @abstractmethod
    def statuses(self) -> list[QueryStatus]:
        """The status of each processor that it runs."""

    @property
    def keeps_state(self) -> bool:
        """Whether it is stateful, so that none of its epochs can be skipped."""
        return False

    # --- common to all kinds ---

    def tick(self) -> None:
        """Starts the work if it is due, or checks its progress and failures."""
        if self.is_started:
            self.watch()
        elif self.state is not WorkState.FAILED and time.monotonic() >= self._next_try:
            self._try_start()

    def _try_start(self) -> None:
        try:
            self.start()
        except ConfigError as error:
            self.give_up(error)
        except Exception as error:
            self.fail(error)

    def give_up(self, error: ConfigError) -> None:
        """Marks the work as failed for good because of its config."""
        self.state, self.detail = WorkState.FAILED, sentence(error)
        if error.hint:
            self.detail += f" ({error.hint})"
        log.error("%s: %s", self.name, self.detail)

    def began(self, detail: str = "") -> None:
        """Marks the work as running. The detail of an earlier failure stays until an epoch has passed: a start alone is
        no progress."""
        self.state = WorkState.RUNNING
        if not self.failures:
            self.detail = detail

    def fail(self, error: BaseException | str) -> None:
        """Schedules a restart with backoff. After MAX_FAILURES failures at the same epoch that are not transient, the
        work stays failed until a user decides."""
        self.failures += 1
        self.detail = sentence(error)
        self.state = WorkState.WAITING
        self._next_try = time.monotonic() + min(MAX_PAUSE_S, 0.5 * 2 ** min(self.failures - 1, 5))
        self.is_passing = is_transient(error)
        if self.is_passing:
            log.warning("%s: transient failure %d: %s", self.name, self.failures, self.detail)
            return
        log.error("%s: failure %d: %s\n%s", self.name, self.failures, self.detail, error)
        if self.continues():
            return
        epoch = self.epoch_reached()
        self._at_epoch = self._at_epoch + 1 if epoch == self._failed_at else 1
        self._failed_at = epoch
        if self._at_epoch >= MAX_FAILURES:
            self.state, self.detail = WorkState.FAILED, f"{self.detail} ({self.choices()})"

    def continues(self) -> bool:
        """Whether the failure was expected and the work continues at once."""
        return False

    def forget_failures(self) -> None:
        self.failures, self._at_epoch, self._failed_at = 0, 0, None

    def choices(self) -> str:
        """The commands that help with work that failed for good."""
        retry = f"after fixing the cause: gauss processors retry {self.name}"
        if self.keeps_state:
            return retry  # a skipped batch would make its state inconsistent
        return f"{retry}; to send the failing records to the dead letters: gauss processors skip {self.name}"

    def execute(self, command: DriverCommand) -> None:
        """Executes a user's `retry` or `stop`."""
        log.info("%s: %s", self.name, command.action)
        self.stop()
        if command.action == "stop":
            self.state, self.detail = WorkState.FAILED, "stopped on request"
            return
        self.renew()

    def renew(self) -> None:
        """Forgets failures; the work starts again at the next tick."""
        self.forget_failures()
        self._next_try = 0.0
        self.state, self.detail = WorkState.STARTING, ""

    def close(self) -> None:
        """Stops the work for good."""
        self.stop()

    def status(self, runs: str, processor: str = "") -> QueryStatus:
        trouble = self.state in (WorkState.WAITING, WorkState.FAILED)
        return QueryStatus(
            processor=processor or self.name,
            state=self.state.value,
            detail=self.detail,
            failures=self.failures,
            runs=runs,
            trace=str(self.context.data_dir.logs / "driver.log") if trouble else "",
        )
