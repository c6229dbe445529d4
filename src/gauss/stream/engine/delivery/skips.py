"""Skips the records at which an epoch fails: its range is granted again in smaller epochs down to single records. Those
become dead letters; the others pass."""

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
"""Maximum number of records that are searched one by one; later failures skip whole epochs."""

log = logging.getLogger(__name__)


@dataclass
class Skip:
    """A skip, from the operator's command until the failed range is passed."""

    processor: str
    until: Ends
    rows: int
    """Maximum number of records of the next epoch."""
    why: str
    whole: bool = False
    """Skips whole epochs: the finished part of one can't be identified by records."""
    buries: str = ""
    """If not empty: the next epoch becomes dead letters, for this reason."""
    buried: int = 0

    @classmethod
    def of(cls, running: ProcessorRun, given: Sequence[Grant], why: str) -> Skip:
        """A skip of the epochs that were in progress when the processor failed."""
        if not given:
            raise ConfigError("nothing to skip: no epoch is in progress", hint=f"gauss processors retry {running.name}")
        made = cls(running.name, places(given[-1].end), 0, why, whole=running.tracked)
        made.failed(given[0], why)
        return made

    def failed(self, grant: Grant, why: str) -> None:
        """Notes a failed epoch: the next one has half of its records, or becomes dead letters."""
        rows = rows_between(grant.start, grant.end)
        self.why = why or self.why
        if rows > 1 and not self.whole and self.buried < MOST_RECORDS:
            self.rows, self.buries = rows // 2, ""
        else:
            self.rows, self.buries = rows, self.why or "it failed"

    def passed(self, grant: Grant, *, buried: bool) -> bool:
        """Notes a published epoch; returns whether the whole failed range is passed. `buried`: its records became dead
        letters. If a part of it was written before, the task has finished it instead."""
        if buried:
            rows = rows_between(grant.start, grant.end)
            log.warning("%s: epoch %d of %d records is skipped: %s", self.processor, grant.epoch, rows, grant.skip)
        if grant.skip:
            self.buries, self.buried = "", self.buried + 1
            self.rows = rows_between(grant.end, self.until)
        same = all(name in grant.end and grant.end[name].inc == at.inc for name, at in self.until.items())
        return not same or rows_between(grant.end, self.until) <= 0
