"""A folder with the connectors of `sync_connectors`, and syncs in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gauss.config.syncs import SyncDef
from gauss.connect.sync import Sync


class World:
    """Syncs of numbers into lines, unless they are told otherwise."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.events: list[dict[str, Any]] = []

    def sync(
        self, *, source: dict[str, Any] | None = None, destination: dict[str, Any] | None = None, **more: Any
    ) -> Sync:
        both = {"folder": str(self.folder)}
        text = {
            "name": "numbers",
            "source": {"connector": "sample:Numbers", "rows": 35, **both, **(source or {})},
            "destination": {"connector": "sample:Lines", **both, **(destination or {})},
            "streams": [{"name": "a", "mode": "incremental", "cursor": "n"}],
            **more,
        }
        return Sync(SyncDef.model_validate(text), self.folder, self.folder / ".gauss", self.events.append)

    def lines(self, stream: str = "a") -> list[int]:
        path = self.folder / f"{stream}.txt"
        return [int(line) for line in path.read_text().split()] if path.exists() else []

    def reads(self, stream: str = "a") -> list[int]:
        """Where each attempt at reading began."""
        return [int(line) for line in (self.folder / f"{stream}.reads").read_text().split()]
