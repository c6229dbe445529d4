"""What a replay of dead letters has done so far, on disk: a replay that was killed is finished by the next one."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from gauss.connect.letters import Letter, append_lines, disk_errors, read_lines

_WHAT = "the journal of a replay"


class ReplayJournal:
    """The file of one replay. Lines: the plan; `begin` of a chunk; each letter that comes back; `done` of a chunk.
    Methods that write raise DiskFull or another StorageError."""

    def __init__(self, folder: Path, sync: str) -> None:
        self._path = folder / f"{sync}.jsonl"
        self.token = ""
        """Its identity: what a destination has committed counts for this replay only."""
        self.chunks: list[list[str]] = []
        """The ids of the letters that are written together."""
        self.done: set[int] = set()
        self._back: dict[int, list[Letter]] = {}
        self._read()

    def _read(self) -> None:
        for line in read_lines(self._path):
            match line.get("step"):
                case "plan":
                    self.token, self.chunks = line["token"], line["chunks"]
                case "begin":
                    self._back[line["chunk"]] = []  # an earlier attempt at the chunk was not committed
                case "back":
                    self._back.setdefault(line["chunk"], []).append(line["letter"])
                case "done":
                    self.done.add(line["chunk"])

    @property
    def exists(self) -> bool:
        """Whether a replay has begun and was not finished."""
        return bool(self.token)

    def begin(self, chunks: list[list[str]]) -> None:
        """Starts a new replay."""
        with disk_errors(_WHAT, self._path):
            self._path.parent.mkdir(parents=True, exist_ok=True)
        self.token, self.chunks, self.done, self._back = secrets.token_hex(8), chunks, set(), {}
        self._add({"step": "plan", "token": self.token, "chunks": chunks})

    def begin_chunk(self, chunk: int) -> None:
        self._back[chunk] = []
        self._add({"step": "begin", "chunk": chunk})

    def come_back(self, chunk: int, letters: Iterable[Letter]) -> None:
        """Keeps rows that were refused again; before the destination commits the others."""
        given = list(letters)
        self._back[chunk] += given
        self._add(*({"step": "back", "chunk": chunk, "letter": letter} for letter in given))

    def end_chunk(self, chunk: int) -> None:
        self.done.add(chunk)
        self._add({"step": "done", "chunk": chunk})

    def back(self) -> list[Letter]:
        """The letters of finished chunks that were refused again."""
        return [letter for chunk in sorted(self.done) for letter in self._back.get(chunk, [])]

    def done_ids(self) -> set[str]:
        """The letters of finished chunks."""
        return {id for chunk in self.done for id in self.chunks[chunk]}

    def remove(self) -> None:
        with disk_errors(_WHAT, self._path):
            self._path.unlink(missing_ok=True)
        self.token = ""

    def _add(self, *lines: dict[str, Any]) -> None:
        with disk_errors(_WHAT, self._path):
            append_lines(self._path, lines)
