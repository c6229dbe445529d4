"""Recovery of a folder: the log continues after its last intact block. A torn tail and uncommitted records are cut off
and kept aside; other damage stays in place, and only its records cannot be read."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from gauss.contracts.framing import Framing
from gauss.plugins.storages.file import aside_folder
from gauss.plugins.storages.file.disk import segment_files
from gauss.plugins.storages.file.index import ENTRY, BlockIndex, IndexEntry
from gauss.plugins.storages.file.integrity import Files, record_count
from gauss.plugins.storages.file.rolled_segment import RolledSegment, open_rolled
from gauss.plugins.storages.file.segment import REMOVED, ROWS, Segment, remove_rest
from gauss.plugins.storages.file.tail import Tail

log = logging.getLogger(__name__)
AnySegment = Segment | RolledSegment


@dataclass
class Recovered:
    """The segments of a folder in order, and the data that was cut from the last ones."""

    segments: list[AnySegment] = field(default_factory=list)
    lost: int = 0
    """Number of indexed records whose bytes were lost in a crash."""
    aside: int = 0
    """Number of records of publishes that are not in the journal."""
    publishes: set[int] = field(default_factory=set)
    """Those publishes."""
    folders: list[Path] = field(default_factory=list)
    """Folders with the data that was cut."""


def open_segments(
    root: Path, framing: Framing, committed: Callable[[int], bool], gaps: list[tuple[int, int]] | None
) -> Recovered:
    """Opens the segments of a folder; the last one, if open for writing, ends in an intact and committed block."""
    for mark in segment_files(root, REMOVED):
        remove_rest(mark)
    found = Recovered()
    rolled = open_rolled(root)
    segments = _measured(root, framing)
    while segments and _open_last(root, segments, framing, committed, found):
        segments.pop()
    if len(found.publishes) == 1 and not found.lost:
        aside_folder.keep_as_epoch(root, found.folders)
    found.segments = sorted([*rolled, *segments], key=lambda segment: segment.base)
    _join(found.segments, gaps)
    return found


def inspect(root: Path, framing: Framing, gaps: list[tuple[int, int]] | None) -> list[AnySegment]:
    """The segments as `open_segments` returns them if every publish is committed; changes nothing."""
    segments = _measured(root, framing)
    if segments:
        tail, last = Tail(Files(segments[-1].path("log"))), segments[-1]
        last.blocks, last.end, last.size = tail.blocks, tail.end, tail.size
        if not tail.ends_soundly:
            last.end += max(record_count(framing, tail.rest()), tail.unsound_records)
    logs = {segment.base for segment in segments}
    rolled = [RolledSegment(path) for path in segment_files(root, "arrow") if int(path.stem) not in logs]
    found: list[AnySegment] = sorted([*rolled, *segments], key=lambda segment: segment.base)
    _join(found, gaps)
    return found


def _measured(root: Path, framing: Framing) -> list[Segment]:
    """The segments by file name, with end, size and last time from the last index entry."""
    places = {path.with_suffix(".log") for path in [*segment_files(root, "index"), *segment_files(root, "log")]}
    segments: list[Segment] = []
    for path in sorted(places, key=lambda path: int(path.stem)):
        segment = Segment(path.parent, int(path.stem), framing, 0)
        files = segment.path("index")
        segment.blocks = files.stat().st_size // ENTRY.size if files.exists() else 0
        if segment.blocks:
            with files.open("rb") as file:
                raw = os.pread(file.fileno(), ENTRY.size, (segment.blocks - 1) * ENTRY.size)
            last = BlockIndex(memoryview(raw)).entry(0)
            segment.end, segment.size, segment.last_ts = last.end, last.end_position, last.ts_ms
        segments.append(segment)
    return segments


def _open_last(
    root: Path, segments: list[Segment], framing: Framing, committed: Callable[[int], bool], found: Recovered
) -> bool:
    """Cuts the last segment to its intact and committed part and opens it for writing, unless it is damaged. Returns
    True if nothing is left of it, as an epoch may start in the segment before."""
    last = segments[-1]
    tail = Tail(Files(last.path("log")))
    tail.cut_uncommitted(committed)
    found.lost += tail.torn
    found.aside += tail.uncommitted
    found.publishes |= tail.uncommitted_publishes
    if tail.is_cut:
        if tail.why == "unfinished":  # an append without an index entry, or a truncated index
            found.aside += record_count(framing, tail.rest())
        found.folders.append(_set_aside(root, last, tail))
    last.blocks, last.end, last.size = tail.blocks, tail.end, tail.size
    if tail.ends_soundly:
        last.path(ROWS).unlink(missing_ok=True)  # it is written again when the segment is finished
        last.begin_writing()
        last.cut(tail.blocks)
    else:
        # Bytes or counts of the damaged end are wrong: use the larger number, since no offset may be reused.
        last.end += max(record_count(framing, tail.rest()), tail.unsound_records)
    if tail.is_damaged:
        # Damage stays in place, and the log continues in a new segment.
        last.stop_writing()
        return False
    # An earlier rolled segment has no part of a torn epoch: its data and commits were synced before it was rolled.
    if last.blocks or len(segments) == 1 or segments[-2].end != last.base or _ends_committed(segments[-2], committed):
        return False
    last.stop_writing()
    last.remove()
    return True


def _ends_committed(segment: Segment, committed: Callable[[int], bool]) -> bool:
    """Whether the last block of a segment is intact and committed."""
    files = Files(segment.path("log"))
    entries = files.entries()
    last = IndexEntry(*entries[-1].tolist()) if len(entries) else None
    return last is not None and files.holds(last) and (not last.publish or committed(last.publish))


def _set_aside(root: Path, segment: Segment, tail: Tail) -> Path:
    """Copies the data that is about to be cut; returns the folder of the copy."""
    folder = aside_folder.folder_for(root, tail.why)
    kept = aside_folder.keep_tail(segment.path("log"), tail.size, folder / f"{tail.end:020d}.log")
    aside_folder.keep_tail(segment.path("index"), tail.blocks * ENTRY.size, folder / f"{tail.end:020d}.index")
    aside_folder.keep_tail(segment.path("times"), 8 * (tail.end - segment.base), folder / f"{tail.end:020d}.times")
    log.warning("%s: %s; %d bytes are kept in %s", segment.path("log"), tail.explained(), kept, folder)
    return folder


def _join(segments: list[AnySegment], gaps: list[tuple[int, int]] | None) -> None:
    """Extends each segment to the start of the next one, except over gaps: records missing in between count as damage
    of the earlier segment."""
    before = 0
    for number, segment in enumerate(segments):
        following = segments[number + 1] if number + 1 < len(segments) else None
        if following is not None and segment.end != following.base:
            legacy = gaps is None and segment.end < following.base and segment.ends_soundly()
            if not legacy and not _left_out(segment.end, following.base, gaps or []):
                segment.unmap()
                segment.end = following.base
        segment.before, before = before, before + segment.size


def _left_out(first: int, stop: int, gaps: list[tuple[int, int]]) -> bool:
    """Whether the gaps cover [first, stop)."""
    if first > stop:
        return False
    for start, end in sorted(gaps):
        if start <= first < end:
            first = end
    return first >= stop
