"""The standing job of a processor: its tasks and their grants."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from gauss.clients.engine.positions import Ends
from gauss.clients.engine.task_messages import Grant


@dataclass
class Job:
    """The standing job that reads for a processor, in one generation."""

    number: int
    generation: int
    tip: Ends
    """The start of the next grant."""
    again: deque[tuple[Ends, int]] = field(default_factory=deque)
    """Ends and lanes of epochs that tasks of earlier generations may have started; granted first, unchanged."""
    attempts: dict[int, int] = field(default_factory=dict)
    """The newest attempt of each task."""
    joined: set[int] = field(default_factory=set)
    """Tasks of this generation."""
    epoch: int = 0
    """The number of the next epoch."""
    given: deque[Grant] = field(default_factory=deque)
    """Granted, unpublished epochs in order."""
    granted_at: deque[float] = field(default_factory=deque)
    """When each of them was granted."""
    waits_since: float | None = None
    """When records began to wait for more."""
    empties: bool = False
    """The rows of a rebuilt table must be deleted before the next grant."""

    def in_progress(self) -> frozenset[str]:
        """The keys of the topics of which a granted epoch has records."""
        return frozenset(key for grant in self.given for key, at in grant.end.items() if grant.start.get(key) != at)
