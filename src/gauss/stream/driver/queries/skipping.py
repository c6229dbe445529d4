"""Skipping of failing records: the range of a failed epoch is split into smaller epochs until single records remain,
which become dead letters. All other records pass as usual."""

from __future__ import annotations

import logging

from gauss.clients.engine.client import EngineClient
from gauss.clients.engine.positions import Ends, places
from gauss.clients.engine.task_messages import Claimed, Publish
from gauss.model.errors import ConfigError
from gauss.stream.driver.planning.checkpoint import Checkpoint
from gauss.stream.driver.queries.sink import offsets_of
from gauss.stream.engine.delivery.epochs import rows_between
from gauss.stream.engine.delivery.skips import MOST_RECORDS

log = logging.getLogger(__name__)


def half_done(checkpoint: Checkpoint) -> int:
    """The epoch that Spark has planned and not committed; raises ConfigError if there is none."""
    epoch = checkpoint.planned()
    if epoch is None or epoch == checkpoint.committed():
        raise ConfigError("nothing to skip: no epoch is in progress", hint="gauss processors retry")
    return epoch


class Skipping:
    """The skip of one query, from a user's command until the failed range has passed."""

    def __init__(self, name: str, client: EngineClient) -> None:
        self._name, self._client = name, client
        self._until: Ends = {}
        self._buried = 0
        self.max_rows = 0
        """Maximum rows of an epoch during a skip; 0 if no skip is in progress."""

    def narrow(self, checkpoint: Checkpoint, claimed: Claimed, targets: list[str], why: str, *, whole: bool) -> None:
        """Halves the failed epoch, or publishes its single record as a dead letter. `whole`: publishes all its records
        as dead letters, because some tasks may have written theirs under the name of this epoch."""
        epoch = half_done(checkpoint)
        folder = str(checkpoint.spark)
        ends = offsets_of(folder, epoch)
        rows = rows_between(offsets_of(folder, epoch - 1) if epoch else claimed.start, ends)
        self._until = self._until or ends
        if rows > 1 and not whole and self._buried < MOST_RECORDS:
            self.max_rows = rows // 2
            checkpoint.unplan(epoch)
            return
        self._client.publish(
            Publish(
                self._name,
                claimed.generation,
                checkpoint.open(),
                epoch,
                ends,
                {target: [] for target in targets},
                skip=True,
                why=why,
            )
        )
        checkpoint.mark_committed(epoch)
        log.warning("%s: epoch %d of %d records is skipped: %s", self._name, epoch, rows, why)
        self._buried += 1
        self.max_rows = rows_between(ends, self._until)
        if self.max_rows <= 0:
            self._end()

    def is_over(self, checkpoint: Checkpoint) -> bool:
        """Whether the whole failed range has passed, so that epochs may be of any size again."""
        epoch = checkpoint.committed()
        if not self.max_rows or epoch is None:
            return False
        ends = offsets_of(str(checkpoint.spark), epoch)
        same = all(name in ends and ends[name].inc == at.inc for name, at in places(self._until).items())
        if same and rows_between(ends, self._until) > 0:
            return False
        self._end()
        return True

    def _end(self) -> None:
        self._until, self._buried, self.max_rows = {}, 0, 0
