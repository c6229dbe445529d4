"""The file of an `OrderIndex`: a header, the ends where it begins, then the growth of each step.

Entries are appended before the records become visible, each with a checksum. An incomplete end is cut at open.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import xxhash

from gauss.model.errors import Damaged
from gauss.model.files import PRIVATE_FILE
from gauss.plugins.storages.file.disk import os_errors_explained
from gauss.plugins.storages.kafka.order_index import OrderIndex

NAME = "order.index"
_HEADER = struct.Struct("<8sq")
_MAGIC = b"gkorder1"
_ENTRY = struct.Struct("<II")
"""Number of partitions, and the checksum of it and of the ends."""
_END = np.dtype([("partition", "<u4"), ("end", "<i8")])


class OrderFile:
    """The open file of an index of one incarnation."""

    def __init__(self, path: Path, index: OrderIndex, inc: int) -> None:
        """Writes the file anew, with what the index holds."""
        self.path, self.inc = path, inc
        self._synced = True
        self.size, self._fd = 0, -1
        temporary = path.with_name(f".{path.name}.new")
        with os_errors_explained("write", temporary):
            self._fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, PRIVATE_FILE)
            try:
                self._write(_HEADER.pack(_MAGIC, inc) + _entry(index.base()) + b"".join(map(_entry, index.changes())))
                os.fdatasync(self._fd)
                temporary.replace(path)
            except OSError:
                self.close()
                raise

    def append(self, grown: Mapping[int, int]) -> None:
        with os_errors_explained("write", self.path):
            self._write(_entry(grown))
        self._synced = False

    def sync(self) -> None:
        """Writes what was appended to the disk: a power loss then changes no offset."""
        if not self._synced:
            self._synced = True
            os.fdatasync(self._fd)

    def close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def _write(self, content: bytes) -> None:
        view = memoryview(content)
        try:
            while view:
                view = view[os.write(self._fd, view) :]
        except OSError:
            os.ftruncate(self._fd, self.size)  # a part of an entry followed by others would be damage
            os.lseek(self._fd, self.size, os.SEEK_SET)
            raise
        self.size += len(content)


def load(path: Path, inc: int) -> OrderIndex | None:
    """The index in a file; `None` if there is none of this incarnation. A torn end is ignored: `OrderFile` rewrites
    the file."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    if len(content) < _HEADER.size or _HEADER.unpack_from(content) != (_MAGIC, inc):
        return None
    entries = _entries(path, memoryview(content))
    index = OrderIndex(next(entries, {}))
    for grown in entries:
        index.grow(grown)
    return index


def _entry(ends: Mapping[int, int]) -> bytes:
    body = np.array(list(ends.items()), _END).tobytes()
    return _ENTRY.pack(len(ends), _checksum(len(ends), body)) + body


def _entries(path: Path, content: memoryview) -> Iterator[dict[int, int]]:
    position = _HEADER.size
    while position < len(content):
        rest = content[position:]
        count, expected = _ENTRY.unpack_from(rest) if len(rest) >= _ENTRY.size else (0, 0)
        size = _ENTRY.size + count * _END.itemsize
        body = rest[_ENTRY.size : size]
        if len(rest) < size or _checksum(count, body) != expected:
            if size < len(rest) and any(rest):  # not the last entry, nor zeros that a power loss left
                raise Damaged(
                    f"{path} is damaged at byte {position}: the checksum does not match",
                    hint="delete the file: the topic then starts a new incarnation, whose readers begin anew",
                )
            return
        ends = np.frombuffer(body, _END)
        yield dict(zip(ends["partition"].tolist(), ends["end"].tolist(), strict=True))
        position += size


def _checksum(count: int, body: bytes | memoryview) -> int:
    return xxhash.xxh32_intdigest(body, seed=count + 1)
