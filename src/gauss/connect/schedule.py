"""The syncs of a run: each started at its times, or when asked, as a child process."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gauss.config.syncs import SyncDef
from gauss.connect.scheduled import ScheduledSync
from gauss.model.errors import NotFound
from gauss.process.group import ProcessGroup

KILL_S = 5.0

log = logging.getLogger("gauss.connect")


def embedded_systems(syncs: list[SyncDef]) -> list[str]:
    """The embedded servers that syncs need, so that a run keeps them between the runs of its syncs."""
    if not syncs:  # the imports take a while
        return []
    from gauss.connect.embedded_sides import is_embedded
    from gauss.connect.sides import find_spec

    sides = [(role, sync) for sync in syncs for role in ("source", "destination") if is_embedded(sync, role)]
    specs = [find_spec(role, getattr(sync, role).connector) for role, sync in sides]
    return list(dict.fromkeys(spec.system for spec in specs if spec is not None))


class SyncSchedule:
    """All syncs of a pipeline, from `start` to `stop`."""

    def __init__(
        self,
        syncs: list[SyncDef],
        command: Callable[[str], list[str]],
        data_dir: Path,
        group: ProcessGroup,
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`command`: the command that runs the sync of a name and prints its events as JSON lines. `tell` is called
        with a line for each end of a run."""
        self.syncs = {each.name: ScheduledSync(each, command(each.name), data_dir, group, tell) for each in syncs}

    def start(self) -> None:
        """Starts those that are due."""
        for sync in self.syncs.values():
            sync.start()

    def get(self, name: str) -> ScheduledSync:
        """Raises NotFound."""
        if name not in self.syncs:
            raise NotFound(f'no sync "{name}"', hint=f"syncs of this run: {', '.join(self.syncs) or 'none'}")
        return self.syncs[name]

    def reasons(self) -> list[str]:
        """Why the run is degraded: the syncs whose last run failed."""
        return [f'sync "{name}" failed: {sync.failure}' for name, sync in self.syncs.items() if sync.failure]

    def rows(self) -> list[dict[str, Any]]:
        """Their status in short, for a view that is drawn again and again."""
        return [sync.row() for sync in self.syncs.values()]

    def stop(self, now: threading.Event, seconds: float) -> list[str]:
        """Lets running syncs write what they have read; kills them after so many seconds, or at once when `now` is
        set. Returns the names of those that were killed."""
        deadline = time.monotonic() + seconds
        for sync in self.syncs.values():
            sync.stop()
        while not all(sync.join(0.02) for sync in self.syncs.values()):
            if now.is_set() or time.monotonic() >= deadline:
                break
        killed = [name for name, sync in self.syncs.items() if not sync.join(0)]
        if killed:
            log.warning("killed because they did not stop in time: syncs %s", ", ".join(killed))
        for name in killed:
            self.syncs[name].kill()
        for sync in self.syncs.values():
            sync.join(KILL_S)
            sync.close()
        return killed
