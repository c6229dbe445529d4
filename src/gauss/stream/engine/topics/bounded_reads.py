"""Bounded reads: [from, to) of `ts_ms`, once or at intervals, in ordinary epochs."""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from gauss.clients.engine.positions import At
from gauss.config.spec import SourceRef
from gauss.model.units import moment_ms
from gauss.stream.engine.journal.entries import Bounds
from gauss.stream.engine.topics.partitions import is_partition
from gauss.stream.engine.topics.topic import Topic

SETTLE_MS = 500
"""Records get their time before they are appended: the last ones of a range may arrive a little after its end."""


@dataclass
class Bounded:
    """What a bounded read may read now. Its times are fixed at its first start and stored in the ledger."""

    source: SourceRef
    clock: Callable[[], float] = time.time
    bounds: Bounds | None = None
    _until: int = 0
    _due: int = 0
    _ends: dict[str, int] = field(default_factory=dict)
    """Ends of the partitions whose times vary, as they were when the range was over."""

    @property
    def asked(self) -> str:
        return f"from {self.source.from_} to {self.source.to} every {self.source.every}"

    def restore(self, kept: Bounds | None) -> None:
        """Continues with the times of the ledger if the config is unchanged."""
        if kept is not None and kept.asked == self.asked:
            self.bounds = kept

    def begin(self) -> Bounds:
        """Fixes the times, unless they are fixed."""
        if self.bounds is None:
            now = self._now()
            start = 0 if self.source.from_ is None else moment_ms(self.source.from_, now)
            self.bounds = Bounds(self.asked, start, self._stop(now))
        return self.bounds

    def until(self) -> int:
        """The time before which records may be read now; `every` moves it by intervals."""
        if self.bounds is None:
            return 0
        if self.source.every is None:
            return self.bounds.to_ms
        if (now := self._now()) >= self._due:
            self._until, self._due = max(self._until, self._stop(now)), now + self.source.every
        return self._until

    def end(self, topic: Topic) -> int:
        """The offset before which records may be read now."""
        if not is_partition(topic):
            return min(topic.offset_at(self.until()), topic.version())
        # Records of the range may follow later ones: all are read, and tasks select those of the range (`times`).
        if self.source.every is None and self._now() >= self.until() + SETTLE_MS:
            return self._ends.setdefault(topic.name, topic.version())
        return topic.version()

    def times(self) -> tuple[int, int | None]:
        """The times of the records to read, for a topic whose times vary."""
        bounds = self.begin()
        return bounds.from_ms, bounds.to_ms if self.source.every is None else None

    def behind(self, topic: Topic, at: At) -> int:
        """Number of records of the range that are still to be read."""
        floor = topic.floor()
        return max(self.end(topic) - (max(at.off, floor) if at.inc == topic.inc else floor), 0)

    def is_done(self, topic: Topic, at: At) -> bool:
        """Whether the range is read, and no record can arrive in it."""
        if self.bounds is None or self.behind(topic, at):
            return False
        return self.end(topic) < topic.version() or self._now() >= self.until() + SETTLE_MS

    def outlook(self) -> str:
        """The start of the next query; empty if there is none."""
        to = self.source.to
        if self.source.every is None or (isinstance(to, int) and self.until() >= to):
            return ""
        due = datetime.datetime.fromtimestamp(self._due / 1000, datetime.UTC)
        return f"the next query begins at {due:%H:%M:%S} UTC"

    def _stop(self, now: int) -> int:
        to = now if self.source.to is None else moment_ms(self.source.to, now)
        return min(to, now) if self.source.every is not None else to

    def _now(self) -> int:
        return int(self.clock() * 1000)
