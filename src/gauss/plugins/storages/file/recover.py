"""Opening a folder after a crash: what is whole stays, the torn tail goes, and no epoch is left in half."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np

from gauss.contracts.framing import Framing
from gauss.plugins.storages.file.disk import copy_bytes, mapped
from gauss.plugins.storages.file.index import DTYPE, ENTRY, OWN_TIMES, BlockIndex, Entry
from gauss.plugins.storages.file.rolled import RolledSegment, open_rolled
from gauss.plugins.storages.file.segment import Segment

log = logging.getLogger(__name__)


def open_segments(root: Path, framing: Framing, committed: Callable[[int], bool]) -> list[Segment | RolledSegment]:
    """The segments of a folder in order, the last one of the log open for writing and cut to what is whole and
    committed."""
    rolled = _rolled(root)
    segments: list[Segment] = []
    for path in sorted(_files(root, "index"), key=lambda path: int(path.stem)):
        segment = Segment(path.parent, int(path.stem), framing, 0)
        _measure(segment)
        segments.append(segment)
    _drop_strays(root, min([*(each.base for each in rolled), *(each.base for each in segments)], default=0))
    for earlier in segments[:-1]:
        _mend(earlier)
    torn_publish = 0
    while segments:
        last = segments[-1]
        indexed, end = last.blocks, last.end
        last.blocks, lost = _whole_blocks(last)
        if last.blocks < indexed:
            _set_aside(last, end)
        torn_publish = lost or torn_publish
        last.begin_writing()
        last.cut(_committed_blocks(last, torn_publish, committed))
        # A rolled segment before it holds no part of a torn epoch: what is rolled was on disk, its commit too.
        follows = len(segments) > 1 and segments[-2].end == last.base
        if last.blocks or not follows:
            break
        # An epoch may begin in the segment before: look there too.
        last.stop_writing()
        last.remove()
        segments.pop()
    everything: list[Segment | RolledSegment] = sorted([*rolled, *segments], key=lambda segment: segment.base)
    before = 0
    for each in everything:
        each.before, before = before, before + each.size
    return everything


def _rolled(root: Path) -> list[RolledSegment]:
    """Arrow files that are whole. What a crash left of writing one, or of the log it was made of, goes."""
    for unfinished in _files(root, "arrow.new"):
        unfinished.unlink()
    found = [open_rolled(path) for path in sorted(_files(root, "arrow"), key=lambda path: int(path.stem))]
    rolled = [segment for segment in found if segment is not None]
    for segment in rolled:
        for suffix in ("index", "log", "times"):
            segment.file.with_suffix(f".{suffix}").unlink(missing_ok=True)
    return rolled


def _drop_strays(root: Path, oldest: int) -> None:
    """Data without its index. Removing a segment begins with that, at the oldest one; elsewhere somebody lost it."""
    for stray in _files(root, "log"):
        if stray.with_suffix(".index").exists():
            continue
        if stray.stat().st_size and int(stray.stem) >= oldest:
            kept = stray.replace(stray.with_suffix(".log.torn"))
            log.warning("%s: its index is missing, and so its records are lost; it is kept as %s", stray, kept)
        else:
            stray.unlink()
        stray.with_suffix(".times").unlink(missing_ok=True)


def _set_aside(segment: Segment, end: int) -> None:
    """What is about to be cut was whole when it was written: a disk lost it, or somebody changed the file."""
    copies = [segment.path(f"{suffix}.torn") for suffix in ("log", "index")]
    try:
        for copy in copies:
            with copy.with_suffix("").open("rb") as source, copy.open("wb") as target:
                copy_bytes(source.fileno(), target.fileno(), os.fstat(source.fileno()).st_size)
        kept = f"a copy of the file is in {copies[0]}"
    except OSError as error:
        kept = f"no copy could be made: {error.strerror}"
    first = BlockIndex(memoryview(segment.path("index").read_bytes())).entry(segment.blocks).offset
    log.warning(
        "%s: records %d to %d are lost: from there on bytes and checksums differ; %s",
        segment.path("log"),
        first,
        end,
        kept,
    )


def _files(root: Path, suffix: str) -> list[Path]:
    """Files that are ours by their names: the folder may be the user's own."""
    name = "[0-9]" * 20 + f".{suffix}"
    return [*root.glob(name), *root.glob(f"[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]/{name}")]


def _measure(segment: Segment) -> None:
    """Takes end, size and last time from the last whole index entry."""
    size = segment.path("index").stat().st_size
    segment.blocks = size // ENTRY.size
    if not segment.blocks:
        return
    with segment.path("index").open("rb") as file:
        raw = os.pread(file.fileno(), ENTRY.size, (segment.blocks - 1) * ENTRY.size)
    last = BlockIndex(memoryview(raw)).entry(0)
    segment.end, segment.size, segment.last_ts = last.end, last.end_position, last.ts_ms


def _mend(segment: Segment) -> None:
    """A segment that others follow lacks bytes only if the disk lost them: what is whole stays, a gap follows."""
    size = segment.path("log").stat().st_size if segment.path("log").exists() else 0
    if size >= segment.size:
        return
    end = segment.end
    segment.blocks, _ = _whole_blocks(segment)
    segment.begin_writing()
    segment.cut(segment.blocks)
    segment.stop_writing()
    log.warning("%s: records %d to %d are lost: the disk kept %d bytes", segment.path("log"), segment.end, end, size)


def _whole_blocks(segment: Segment) -> tuple[int, int]:
    """How many blocks of the last segment follow each other and have the bytes that their checksums say, and
    the publish of the first that does not."""
    data = mapped(segment.path("log")) if segment.path("log").exists() else memoryview(b"")
    raw = segment.path("index").read_bytes()
    entries = np.frombuffer(raw[: len(raw) // ENTRY.size * ENTRY.size], dtype=DTYPE)
    times = mapped(segment.path("times")) if segment.path("times").exists() else memoryview(b"")
    offset, position = segment.base, 0
    for number, fields in enumerate(entries.tolist()):
        entry = Entry(*fields)
        follows = (entry.offset, entry.position) == (offset, position) and entry.records
        if not follows or entry.end_position > len(data):
            return number, entry.publish
        first = 8 * (offset - segment.base)
        own = bytes(times[first : first + 8 * entry.records]) if entry.flags & OWN_TIMES else b""
        if not entry.holds(data[position : entry.end_position], own):
            return number, entry.publish
        offset, position = entry.end, entry.end_position
    return len(entries), 0


def _committed_blocks(segment: Segment, torn_publish: int, committed: Callable[[int], bool]) -> int:
    """Drops from the end what no journal entry commits, and the rest of an epoch whose tail was torn off."""
    index, keep = segment.index(), segment.blocks
    while keep and (publish := index.entry(keep - 1).publish) and (publish == torn_publish or not committed(publish)):
        keep -= 1
    return keep
