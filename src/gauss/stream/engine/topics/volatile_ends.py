"""The ends of memory topics in a mapped file, which survives a killed engine, so that the next one can count the
loss."""

from __future__ import annotations

import json
import mmap
import struct
from collections.abc import Callable, Iterable
from pathlib import Path

from gauss.clients.engine.positions import At, Ends
from gauss.stream.engine.topics.log_topic import LogTopic
from gauss.stream.engine.topics.topic import Topic

_HEAD = struct.Struct("<q")  # length of the names, a JSON array, which the slots follow
_SLOT = struct.Struct("<qq")  # incarnation and end
_END = struct.Struct("<q")


def read_ends(path: Path) -> Ends:
    """The ends of memory topics in the last engine; empty if the file is missing or truncated."""
    try:
        data = path.read_bytes()
        (length,) = _HEAD.unpack_from(data)
        names = json.loads(data[_HEAD.size : _HEAD.size + length])
        first = _first(length)
        return {name: At(*_SLOT.unpack_from(data, first + place * _SLOT.size)) for place, name in enumerate(names)}
    except (OSError, ValueError, struct.error):
        return {}


def keep_ends(path: Path, topics: Iterable[Topic]) -> None:
    """Stores the visible end of each topic from now on."""
    kept = [topic for topic in topics if isinstance(topic, LogTopic)]
    names = json.dumps([topic.name for topic in kept]).encode()
    first = _first(len(names))
    content = bytearray(first + len(kept) * _SLOT.size or 1)
    _HEAD.pack_into(content, 0, len(names))
    content[_HEAD.size : _HEAD.size + len(names)] = names
    for place, topic in enumerate(kept):
        _SLOT.pack_into(content, first + place * _SLOT.size, topic.inc, topic.version())
    fresh = path.with_name(f".{path.name}.new")
    fresh.write_bytes(content)
    with fresh.open("r+b") as file:
        mapped = mmap.mmap(file.fileno(), len(content))
    fresh.replace(path)
    for place, topic in enumerate(kept):
        topic.note_end = _noting(mapped, first + place * _SLOT.size + _END.size)


def _noting(mapped: mmap.mmap, at: int) -> Callable[[int], None]:
    return lambda end: _END.pack_into(mapped, at, end)


def _first(length: int) -> int:
    """Slots are aligned, so that an end is written atomically."""
    return -(-(_HEAD.size + length) // 8) * 8
