"""Removes damaged records from a topic's folder: intact ones are rewritten, the old files are moved aside."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from gauss.plugins.storages.file import aside_folder
from gauss.plugins.storages.file.arrow_check import Sums
from gauss.plugins.storages.file.disk import create, sync_folder
from gauss.plugins.storages.file.index import ENTRY, OWN_TIMES, IndexEntry
from gauss.plugins.storages.file.integrity import Files
from gauss.plugins.storages.file.meta import Meta
from gauss.plugins.storages.file.rolled_segment import RolledSegment, write_rolled
from gauss.plugins.storages.file.segment import ROWS, Segment


def drop_damaged(root: Path, meta: Meta, segment: Segment | RolledSegment, *, last: bool) -> Path:
    """Rewrites the intact records of a segment, with gaps for the others; returns the folder of the old files."""
    for damage in segment.damage:
        meta.add_gap(damage.first, damage.stop)
    fresh = list(_logs(segment) if isinstance(segment, Segment) else _arrows(segment))
    if last:  # an empty segment reserves the offsets: none is used again
        fresh += [_written(segment.folder / f"{segment.end:020d}{suffix}.new", b"") for suffix in (".log", ".index")]
    kept = aside_folder.folder_for(root, "damaged")
    for suffix in ("log", "index", "times", "arrow", "sum", ROWS):
        old = segment.folder / f"{segment.base:020d}.{suffix}"
        if old.exists():
            aside_folder.move(old, kept)
    for path in fresh:
        path.rename(path.with_suffix(""))
    sync_folder(segment.folder)
    segment.unmap()
    return kept


def _logs(segment: Segment) -> Iterator[Path]:
    """Writes new log files under temporary names, one segment per run of intact blocks."""
    files = Files(segment.path("log"))
    for run in _runs(_sound_entries(segment)):
        first, end = run[0], run[-1].end
        name = segment.folder / f"{first.offset:020d}"
        index = b""
        for entry in run:
            payload, times = files.data[entry.position : entry.end_position], files.times_of(entry)
            moved = entry._replace(position=entry.position - first.position)
            index += ENTRY.pack(*moved.sealed(payload, times))
        yield _written(name.with_suffix(".log.new"), files.data[first.position : run[-1].end_position])
        if any(entry.flags & OWN_TIMES for entry in run):
            start = 8 * (first.offset - segment.base)
            yield _written(name.with_suffix(".times.new"), files.times[start : 8 * (end - segment.base)])
        yield _written(name.with_suffix(".index.new"), index)


def _sound_entries(segment: Segment) -> list[IndexEntry]:
    index = segment.index()
    segment.check_all()
    entries = [index.entry(number) for number in range(len(index))]
    return [each for each in entries if not any(bad.first <= each.offset < bad.stop for bad in segment.damage)]


def _runs(entries: list[IndexEntry]) -> Iterator[list[IndexEntry]]:
    """Groups blocks that are contiguous in offsets and in the file."""
    run: list[IndexEntry] = []
    for entry in entries:
        if run and (entry.offset, entry.position) != (run[-1].end, run[-1].end_position):
            yield run
            run = []
        run.append(entry)
    if run:
        yield run


def _arrows(segment: RolledSegment) -> Iterator[Path]:
    """Writes new Arrow files under temporary names, one per run of intact batches."""
    batches, starts = segment.sound()
    runs: list[tuple[int, int, list[int]]] = []
    for number, start in enumerate(starts.tolist()):
        end = start + batches[number].num_rows
        if runs and runs[-1][1] == start:
            runs[-1] = (runs[-1][0], end, [*runs[-1][2], number])
        else:
            runs.append((start, end, [number]))
    for start, end, numbers in runs:
        kept = [batches[number] for number in numbers]
        last_ts = kept[-1].column(1)[-1].as_py()
        size = segment.size * (end - start) // max(segment.end - segment.base, 1)
        yield from write_rolled(segment.folder, Sums(start, end, size, last_ts), kept)


def _written(path: Path, content: bytes | memoryview) -> Path:
    with create(path) as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    return path
