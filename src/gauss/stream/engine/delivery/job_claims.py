"""The standing job of a processor: which tasks read for it, and what they were given."""

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
    """Where the next grant begins."""
    again: deque[Ends] = field(default_factory=deque)
    """Ends of what tasks of earlier generations may have begun with: granted first, and as they were."""
    attempts: dict[int, int] = field(default_factory=dict)
    """Task → its newest attempt."""
    joined: set[int] = field(default_factory=set)
    """Tasks of this generation."""
    epoch: int = 0
    """The next one to be granted."""
    given: deque[Grant] = field(default_factory=deque)
    """Granted and not published, in order."""
    granted_at: deque[float] = field(default_factory=deque)
    """When each of them was."""
    waits_since: float | None = None
    """When records began to wait for more of them."""
    empties: bool = False
    """Rows of a rebuilt table must go before anything is granted."""
