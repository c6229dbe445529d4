"""Skipping what an epoch fails at: its range is granted again in smaller epochs until single records are left. Those
become dead letters; records beside them pass as always."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gauss.clients.engine.positions import Ends, places
from gauss.clients.engine.task_messages import Grant
from gauss.model.errors import ConfigError
from gauss.stream.engine.delivery.epochs import rows_between

if TYPE_CHECKING:
    from gauss.stream.engine.delivery.processor_run import ProcessorRun

MOST_RECORDS = 100
"""So many records are looked for one by one; what fails behind them is skipped by whole epochs."""

log = logging.getLogger(__name__)


@dataclass
class Skip:
    """A skip, from a person's word until the range that failed is passed."""

    processor: str
    until: Ends
    rows: int
    """The most of the next epoch."""
    why: str
    whole: bool = False
    """Passes over whole epochs: what a task has done of one can't be told apart by records."""
    buries: str = ""
    """Not empty: the next epoch becomes dead letters, for this reason."""
    buried: int = 0

    @classmethod
    def of(cls, running: ProcessorRun, given: Sequence[Grant], why: str) -> Skip:
        """Of what was under way when the processor failed."""
        if not given:
            raise ConfigError("nothing to skip: no epoch is in progress", hint=f"gauss processors retry {running.name}")
        made = cls(running.name, places(given[-1].end), 0, why, whole=running.tracked)
        made.failed(given[0], why)
        return made

    def failed(self, grant: Grant, why: str) -> None:
        """An epoch has failed: the next one has half of its records, or becomes dead letters."""
        rows = rows_between(grant.start, grant.end)
        self.why = why or self.why
        if rows > 1 and not self.whole and self.buried < MOST_RECORDS:
            self.rows, self.buries = rows // 2, ""
        else:
            self.rows, self.buries = rows, self.why or "it failed"

    def passed(self, grant: Grant) -> bool:
        """An epoch is published; whether the whole range that once failed is."""
        if grant.skip:
            rows = rows_between(grant.start, grant.end)
            log.warning("%s: epoch %d of %d records is skipped: %s", self.processor, grant.epoch, rows, grant.skip)
            self.buries, self.buried = "", self.buried + 1
            self.rows = rows_between(grant.end, self.until)
        same = all(name in grant.end and grant.end[name].inc == at.inc for name, at in self.until.items())
        return not same or rows_between(grant.end, self.until) <= 0
