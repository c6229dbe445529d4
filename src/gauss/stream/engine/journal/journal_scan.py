"""Reads the bytes of a commit journal and tells a torn tail from damage.

File: 8 bytes of magic, then entries `u32 length, u32 crc32(length + body), body`. The first entry is the snapshot of a
compaction: it was complete before the file got its name. Entries behind it are appended one by one, so a crash leaves
at most one incomplete entry, at the very end; a power loss may also leave zeros there. Anything else is damage.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass, field

import numpy as np

MAGIC = b"GAUSSJ\x00\x01"
HEAD = struct.Struct("<II")
SECTOR = 512
ZEROS = 16
"""A shorter run of zeros may be the end of an entry."""


@dataclass
class Scanned:
    """The contents of a journal."""

    bodies: list[bytes] = field(default_factory=list)
    """Entries before the tear or the damage."""
    end: int = 0
    """The end of the last of them."""
    damage: str = ""
    """The damage at `end`; empty if there is none, or only a torn tail."""
    later: list[bytes] = field(default_factory=list)
    """Complete entries behind the damage."""


def encode(body: bytes) -> bytes:
    """The bytes of an entry in the file."""
    length = struct.pack("<I", len(body))
    return length + struct.pack("<I", _checksum(length, body)) + body


def scan(content: bytes) -> Scanned:
    """The intact entries of a journal, and the damage behind them."""
    if len(content) < len(MAGIC) and MAGIC.startswith(content):
        return Scanned()
    found = Scanned(end=len(MAGIC))
    _take(content, found.bodies, found)
    if content[: len(MAGIC)] != MAGIC:
        return Scanned(damage="it does not begin like a commit journal", later=found.bodies)
    if found.end == len(content):
        return found
    found.damage = _judge(content, found.end, snapshot=not found.bodies)
    if found.damage:
        found.later = _later(content, found.end + 1)
    return found


def _take(content: bytes, bodies: list[bytes], found: Scanned) -> None:
    while (body := _entry(content, found.end)) is not None:
        bodies.append(body)
        found.end += HEAD.size + len(body)


def _entry(content: bytes, position: int) -> bytes | None:
    """The body of the entry at `position`; None if there is none or its checksum is wrong."""
    if position + HEAD.size > len(content):
        return None
    length, checksum = HEAD.unpack_from(content, position)
    body = content[position + HEAD.size : position + HEAD.size + length]
    # No entry is empty: zeros would be an endless sequence of them.
    if not length or len(body) < length or _checksum(content[position : position + 4], body) != checksum:
        return None
    return body


def _checksum(length: bytes, body: bytes) -> int:
    return zlib.crc32(body, zlib.crc32(length))


def _judge(content: bytes, position: int, *, snapshot: bool) -> str:
    """The damage at `position`; empty if it is a torn tail."""
    rest = content[position:]
    if not rest.strip(b"\x00"):
        return ""
    if snapshot:
        return "its first entry, the snapshot of the state, is not complete or fails its checksum"
    if len(rest) < HEAD.size or _zeros_from_a_sector(content, position):
        return ""
    length, checksum = HEAD.unpack_from(rest)
    if HEAD.size + length <= len(rest):
        return "an entry fails its checksum"
    # The entry reaches beyond the end of the file: torn, unless its length was changed.
    if _checksum(struct.pack("<I", len(rest) - HEAD.size), rest[HEAD.size :]) == checksum:
        return "the length of the last entry was changed"
    return "the length of an entry was changed" if _later(content, position + 1) else ""


def _zeros_from_a_sector(content: bytes, position: int) -> bool:
    """Whether sectors at the end of the file were never written: the file had grown, but its data was lost in a power
    failure."""
    written = len(content.rstrip(b"\x00"))
    boundary = -(-written // SECTOR) * SECTOR
    return boundary > position and len(content) - boundary >= ZEROS


def _later(content: bytes, position: int) -> list[bytes]:
    """All complete entries behind `position`, wherever the next one begins."""
    raw = np.frombuffer(content, dtype=np.uint8)[position:].astype(np.uint32)
    if len(raw) < HEAD.size:
        return []
    count = len(raw) - HEAD.size + 1
    lengths = raw[:count] | raw[1 : count + 1] << 8 | raw[2 : count + 2] << 16 | raw[3 : count + 3] << 24
    room = np.arange(count - 1, -1, -1, dtype=np.uint32)
    bodies: list[bytes] = []
    end = 0
    for at in np.flatnonzero((lengths > 0) & (lengths <= room)).tolist():
        if at >= end and (body := _entry(content, position + at)) is not None:
            bodies.append(body)
            end = at + HEAD.size + len(body)
    return bodies
