"""The disk space of a directory, and how much of it no other file shares."""

from __future__ import annotations

import array
import fcntl
import os
import struct
from pathlib import Path

_FIEMAP = 0xC020660B
_SYNC = 1
_LAST, _SHARED = 0x1, 0x2000
_HEAD = struct.Struct("=QQIIII")
_EXTENT = struct.Struct("=QQQQQIIII")
_COUNT = 128


def disk_bytes(folder: Path) -> tuple[int, int]:
    """Bytes of all files, and of the extents that only this folder has. A folder that vanishes counts what was seen."""
    total = exclusive = 0
    for path, _, names in os.walk(folder):
        for name in names:
            try:
                descriptor = os.open(os.path.join(path, name), os.O_RDONLY | os.O_NOFOLLOW)  # noqa: PTH118 (walks fast)
            except OSError:
                continue
            try:
                blocks = os.fstat(descriptor).st_blocks * 512
                total += blocks
                exclusive += _exclusive(descriptor, blocks)
            except OSError:
                continue
            finally:
                os.close(descriptor)
    return total, exclusive


def _exclusive(descriptor: int, blocks: int) -> int:
    """Bytes of extents that are not shared; all of them where the file system does not tell."""
    if not blocks:
        return 0
    start = found = 0
    while True:
        buffer = array.array("B", _HEAD.pack(start, 2**64 - 1 - start, _SYNC, 0, _COUNT, 0))
        buffer.frombytes(bytes(_EXTENT.size * _COUNT))
        try:
            fcntl.ioctl(descriptor, _FIEMAP, buffer, True)
        except OSError:
            return blocks
        count = _HEAD.unpack_from(buffer)[3]
        flags = _LAST
        for number in range(count):
            logical, _, length, _, _, flags, *_ = _EXTENT.unpack_from(buffer, _HEAD.size + number * _EXTENT.size)
            start = logical + length
            if not flags & _SHARED:
                found += min(length, blocks)
        if not count or flags & _LAST:
            return found
