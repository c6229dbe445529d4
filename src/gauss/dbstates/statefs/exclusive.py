"""The disk space of a directory, and how much of it no other file shares."""

from __future__ import annotations

import array
import fcntl
import os
import struct
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

_FIEMAP = 0xC020660B
_SYNC = 1
_LAST, _SHARED = 0x1, 0x2000
_HEAD = struct.Struct("=QQIIII")
_EXTENT = struct.Struct("=QQQQQIIII")
_COUNT = 128


@dataclass
class DiskUse:
    """What a directory takes."""

    total: int = 0
    """Bytes of all files."""
    exclusive: int = 0
    """Bytes of the extents that no other file has."""
    shared: list[tuple[int, int]] = field(default_factory=list)
    """The other extents: place on the disk and bytes."""


def disk_use(folder: Path) -> DiskUse:
    """Of a folder that vanishes, what was seen."""
    found = DiskUse()
    for path, _, names in os.walk(folder):
        for name in names:
            try:
                descriptor = os.open(os.path.join(path, name), os.O_RDONLY | os.O_NOFOLLOW)  # noqa: PTH118 (walks fast)
            except OSError:
                continue
            try:
                blocks = os.fstat(descriptor).st_blocks * 512
                found.total += blocks
                _add(found, descriptor, blocks)
            except OSError:
                continue
            finally:
                os.close(descriptor)
    return found


def union_bytes(extents: Iterable[tuple[int, int]]) -> int:
    """Bytes of extents, each place on the disk counted once."""
    found = end = 0
    for place, length in sorted(extents):
        found += max(place + length - max(place, end), 0)
        end = max(end, place + length)
    return found


def _add(found: DiskUse, descriptor: int, blocks: int) -> None:
    """Adds the extents of a file; all of them are exclusive where the file system does not tell."""
    if not blocks:
        return
    start = 0
    while True:
        buffer = array.array("B", _HEAD.pack(start, 2**64 - 1 - start, _SYNC, 0, _COUNT, 0))
        buffer.frombytes(bytes(_EXTENT.size * _COUNT))
        try:
            fcntl.ioctl(descriptor, _FIEMAP, buffer, True)
        except OSError:
            found.exclusive += blocks
            return
        count = _HEAD.unpack_from(buffer)[3]
        flags = _LAST
        for number in range(count):
            logical, place, length, _, _, flags, *_ = _EXTENT.unpack_from(buffer, _HEAD.size + number * _EXTENT.size)
            start = logical + length
            if flags & _SHARED:
                found.shared.append((place, min(length, blocks)))
            else:
                found.exclusive += min(length, blocks)
        if not count or flags & _LAST:
            return
