"""Offline access to the folders of a storage: list, verify and repair their content."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol


class Block(NamedTuple):
    """Records that were appended together. `publish` is the number of the publish, 0 for a socket."""

    publish: int
    records: int


class Choice(NamedTuple):
    """A way to repair a finding."""

    name: str
    does: str
    """What it does and what is lost."""


@dataclass(frozen=True)
class Finding:
    """Damage found on disk."""

    kind: str
    path: Path
    what: str
    records: int
    """Number of affected items."""
    choices: tuple[Choice, ...]
    topic: str = ""
    first: int = 0
    stop: int = 0

    def to_dict(self) -> dict[str, object]:
        found = {key: value for key, value in vars(self).items() if key not in ("choices", "path")}
        return {**found, "path": str(self.path), "choices": [choice._asdict() for choice in self.choices]}


class Offline(Protocol):
    """The folders of one storage."""

    def is_folder(self, folder: Path) -> bool:
        """Whether the folder belongs to a topic of this storage."""
        ...

    def elsewhere(self, folder: Path) -> Path | None:
        """The folder of a topic that is stored outside the data directory."""
        ...

    def blocks(self, folder: Path) -> Iterator[Block]:
        """All blocks, newest first, without rolled ones, which are committed."""
        ...

    def records(self, folder: Path) -> int: ...

    def size(self, folder: Path) -> int:
        """Number of bytes that `verify` reads."""
        ...

    def verify(self, folder: Path, read: Callable[[int], None]) -> list[Finding]:
        """Returns the damage found. Calls `read` with the number of bytes read, for progress."""
        ...

    def repair(self, folder: Path, finding: Finding, choice: str) -> str:
        """Repairs a finding. Returns a description. Removed data is moved aside."""
        ...
