"""Verifies the index of a segment and the checksum of each block."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from gauss.contracts.framing import Framing
from gauss.model.errors import Damaged, FrameError
from gauss.plugins.storages.file.disk import mapped
from gauss.plugins.storages.file.index import DTYPE, ENTRY, MAX_BLOCK_BYTES, OWN_TIMES, BlockIndex, IndexEntry

HINT = 'gauss verify shows all damage, gauss repair the choices; on_damage = "skip" in the storage_config reads past it'


class Damage(NamedTuple):
    """Damaged records, and the reason."""

    path: Path
    first: int
    stop: int
    what: str

    def error(self) -> Damaged:
        return Damaged(
            f"{self.path}: records {self.first} to {self.stop - 1} are damaged: {self.what}",
            first=self.first,
            stop=self.stop,
            hint=HINT,
        )


def undamaged(found: list[Damage], start: int, stop: int) -> int:
    """The end of the readable part of [start, stop); raises Damaged if the record at `start` is damaged."""
    for damage in found:
        if damage.first <= start < damage.stop:
            raise damage.error()
        if start < damage.first < stop:
            return damage.first
    return stop


def mapped_if_there(path: Path) -> memoryview:
    return mapped(path) if path.exists() else memoryview(b"")


class Files:
    """The files of a segment as they are on disk."""

    def __init__(self, path: Path, blocks: int | None = None) -> None:
        """`path`: the path of the log file, next to its index and times. `blocks`: use only this many first blocks."""
        self.path = path
        self.base = int(path.name.partition(".")[0])
        self.data = mapped_if_there(path)
        self.times = mapped_if_there(path.with_suffix(".times"))
        self.index = mapped_if_there(path.with_suffix(".index"))
        if blocks is not None:
            self.index = self.index[: blocks * ENTRY.size]

    def entries(self) -> np.ndarray:
        """Complete entries of the index."""
        return np.frombuffer(self.index[: len(self.index) // ENTRY.size * ENTRY.size], dtype=DTYPE)

    def holds(self, entry: IndexEntry) -> bool:
        """Whether the bytes and times of the block match its checksum."""
        if entry.position < 0 or entry.offset < self.base or entry.end_position > len(self.data):
            return False
        return entry.holds(self.data[entry.position : entry.end_position], self.times_of(entry))

    def times_of(self, entry: IndexEntry) -> bytes:
        first = 8 * (entry.offset - self.base)
        return bytes(self.times[first : first + 8 * entry.records]) if entry.flags & OWN_TIMES else b""


def check_index(files: Files, end: int) -> tuple[BlockIndex, list[Damage]]:
    """The intact index entries of a finished segment with records up to `end`, and the damaged ranges."""
    entries = files.entries()
    suspects = _suspects(entries, files.base, end, len(files.data))
    if not len(suspects) and (len(entries) or files.base == end):
        return BlockIndex(files.index[: len(entries) * ENTRY.size]), []
    keep = np.ones(len(entries), dtype=bool)
    for number in suspects:
        keep[number] = files.holds(IndexEntry(*entries[number].tolist()))
    sound = entries[keep]
    return BlockIndex(bytearray(sound.tobytes())), missing(files, sound, end)


def missing(files: Files, sound: np.ndarray, end: int) -> list[Damage]:
    """The ranges up to `end` that no intact entry covers."""
    index = files.path.with_suffix(".index")
    what = "the index has no intact entry for them" if len(files.index) else "the index is missing or empty"
    found: list[Damage] = []
    position = files.base
    for first, stop in [*((entry["offset"], entry["offset"] + entry["count"]) for entry in sound), (end, end)]:
        if first > position:
            found.append(Damage(index, position, int(first), what))
        position = max(position, int(stop))
    return found


def _suspects(entries: np.ndarray, base: int, end: int, size: int) -> np.ndarray:
    """Numbers of entries that are not contiguous with a neighbour, so that one of the two is wrong."""
    if not len(entries):
        return np.array([], dtype=np.int64)
    ends = entries["offset"] + entries["count"]
    end_positions = entries["position"] + entries["length"]
    met = (entries["offset"] == np.concatenate(([base], ends[:-1]))) & (
        entries["position"] == np.concatenate(([0], end_positions[:-1]))
    )
    met &= (entries["count"] > 0) & (entries["ts_ms"] >= np.concatenate(([entries["ts_ms"][0]], entries["ts_ms"][:-1])))
    followed = np.concatenate((met[1:], [ends[-1] == end and end_positions[-1] == size]))
    return np.flatnonzero(~(met & followed))


def record_count(framing: Framing, data: memoryview) -> int:
    """The number of records in these bytes by their framing; a part that cannot be split counts as one."""
    try:
        return framing.splitter(MAX_BLOCK_BYTES).feed(bytes(data)).count + 1
    except FrameError:
        return 1
