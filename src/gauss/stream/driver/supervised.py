"""Work on Spark that is kept going: started, watched, started again with growing pauses when it fails."""

from __future__ import annotations

import logging
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from gauss.config.spec import Pipeline
from gauss.model.errors import ConfigError
from gauss.model.paths import DataDir
from gauss.stream.client import EngineClient
from gauss.stream.driver.errors import is_transient, sentence
from gauss.stream.protocol import DriverCommand, QueryStatus

if TYPE_CHECKING:
    from gauss.stream.driver.session import Spark

MAX_FAILURES = 5
MAX_PAUSE_S = 15.0
DETECTING = "detecting: waits for the first records to see what kinds their fields have"
log = logging.getLogger(__name__)


class State(StrEnum):
    STARTING = "starting"
    RUNNING = "running"
    WAITING = "waiting"  # for its next try
    FAILED = "failed"


@dataclass
class Context:
    """What all work of the run shares."""

    spark: Spark
    client: EngineClient
    pipeline: Pipeline
    data_dir: DataDir
    flight: str


class Supervised(ABC):
    """One piece of work: a streaming query, or a standing job."""

    def __init__(self, context: Context, name: str) -> None:
        self.context, self.name = context, name
        self.state = State.STARTING
        self.detail = ""
        self.failures = 0
        self._failed_at: int | None = None
        self._at_epoch = 0
        """How often it failed there."""
        self._next_try = 0.0
        self.is_passing = False
        """Whether its last failure ends by itself."""

    # --- what each kind does ---

    @property
    @abstractmethod
    def names(self) -> list[str]:
        """The processors whose commands it obeys."""

    @property
    @abstractmethod
    def is_started(self) -> bool:
        """Whether there is something to watch."""

    @abstractmethod
    def start(self) -> None:
        """Raises ConfigError if it can never start as it is."""

    @abstractmethod
    def watch(self) -> None:
        """Looks at what was started; calls `fail` when it has ended."""

    @abstractmethod
    def stop(self) -> None:
        """Ends what was started after the epoch it is in."""

    @abstractmethod
    def epoch_reached(self) -> int | None:
        """Grows while it gets on: failures are counted at one epoch."""

    @abstractmethod
    def statuses(self) -> list[QueryStatus]:
        """What is known of each processor that it runs."""

    @property
    def keeps_state(self) -> bool:
        """Whether no epoch of it can be left out."""
        return False

    # --- what all share ---

    def tick(self) -> None:
        """One look: starts what is due, notices progress and failure."""
        if self.is_started:
            self.watch()
        elif self.state is not State.FAILED and time.monotonic() >= self._next_try:
            self._try_start()

    def _try_start(self) -> None:
        try:
            self.start()
        except ConfigError as error:
            self.give_up(error)
        except Exception as error:
            self.fail(error)

    def give_up(self, error: ConfigError) -> None:
        """It can't run as it is."""
        self.state, self.detail = State.FAILED, sentence(error)
        if error.hint:
            self.detail += f" ({error.hint})"
        log.error("%s: %s", self.name, self.detail)

    def began(self, detail: str = "") -> None:
        """It runs. After a failure that failure is shown until an epoch has passed: a start is no progress."""
        self.state = State.RUNNING
        if not self.failures:
            self.detail = detail

    def fail(self, error: BaseException | str) -> None:
        """Tries again later. Failures at one epoch that do not end by themselves are counted; after some of them a
        person must decide."""
        self.failures += 1
        self.detail = sentence(error)
        self.state = State.WAITING
        self._next_try = time.monotonic() + min(MAX_PAUSE_S, 0.5 * 2 ** min(self.failures - 1, 5))
        self.is_passing = is_transient(error)
        if self.is_passing:
            log.warning("%s waits (%d): %s", self.name, self.failures, self.detail)
            return
        log.error("%s failed (%d): %s\n%s", self.name, self.failures, self.detail, error)
        if self.goes_on():
            return
        epoch = self.epoch_reached()
        self._at_epoch = self._at_epoch + 1 if epoch == self._failed_at else 1
        self._failed_at = epoch
        if self._at_epoch >= MAX_FAILURES:
            self.state, self.detail = State.FAILED, f"{self.detail} ({self.choices()})"

    def goes_on(self) -> bool:
        """Whether a failure was expected, and it goes on at once."""
        return False

    def forget_failures(self) -> None:
        self.failures, self._at_epoch, self._failed_at = 0, 0, None

    def choices(self) -> str:
        """What a person may do about work that failed for good."""
        retry = f"once the cause is gone: gauss processors retry {self.name}"
        if self.keeps_state:
            return retry  # a batch that is left out would tear its state
        return f"{retry}; or send what it fails at to the dead letters: gauss processors skip {self.name}"

    def obey(self, command: DriverCommand) -> None:
        """retry or stop, as a person asked."""
        log.info("%s: %s", self.name, command.action)
        self.stop()
        if command.action == "stop":
            self.state, self.detail = State.FAILED, "stopped on request"
            return
        self.renew()

    def renew(self) -> None:
        """Begins anew at the next look."""
        self.forget_failures()
        self._next_try = 0.0
        self.state, self.detail = State.STARTING, ""

    def close(self) -> None:
        """Ends it for good."""
        self.stop()

    def status(self, runs: str, processor: str = "") -> QueryStatus:
        trouble = self.state in (State.WAITING, State.FAILED)
        return QueryStatus(
            processor=processor or self.name,
            state=self.state.value,
            detail=self.detail,
            failures=self.failures,
            runs=runs,
            trace=str(self.context.data_dir.logs / "driver.log") if trouble else "",
        )
