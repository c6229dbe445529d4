"""Rows in the binary form of COPY, passed from one Postgres to another as they are."""

from __future__ import annotations

from collections.abc import Iterator

HEADER = b"PGCOPY\n\xff\r\n\0" + bytes(8)
TRAILER = b"\xff\xff"


def split_rows(payload: bytes) -> Iterator[int]:
    """Where each row of a payload without header and trailer starts, and where the last one ends."""
    at = 0
    while at < len(payload):
        yield at
        fields = int.from_bytes(payload[at : at + 2], "big")
        at += 2
        for _ in range(fields):
            length = int.from_bytes(payload[at : at + 4], "big", signed=True)
            at += 4 + max(length, 0)
    yield at
