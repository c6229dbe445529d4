"""Folders of a storage while no engine has them open: what they hold, whether it is sound, and how it is mended."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol


class Block(NamedTuple):
    """Records that were appended together, by the publish with this number (0: by a socket)."""

    publish: int
    records: int


class Choice(NamedTuple):
    """One way to mend a finding."""

    name: str
    does: str
    """What it does and what is lost by it."""


@dataclass(frozen=True)
class Finding:
    """Something on disk that is not as it was written."""

    kind: str
    path: Path
    what: str
    records: int
    """How many are affected."""
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
        """Whether a topic of this storage was kept there."""
        ...

    def elsewhere(self, folder: Path) -> Path | None:
        """Where a topic is kept that has only a note in the data directory."""
        ...

    def blocks(self, folder: Path) -> Iterator[Block]:
        """Every block, the newest first; rolled ones, which are committed, left out."""
        ...

    def records(self, folder: Path) -> int: ...

    def size(self, folder: Path) -> int:
        """Bytes that `verify` reads."""
        ...

    def verify(self, folder: Path, read: Callable[[int], None]) -> list[Finding]:
        """What is damaged; `read` is told of bytes as they are read."""
        ...

    def repair(self, folder: Path, finding: Finding, choice: str) -> str:
        """Mends a finding; says what was done. What leaves the topic is moved aside."""
        ...
