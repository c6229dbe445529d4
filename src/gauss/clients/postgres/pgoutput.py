"""Messages of Postgres' output plugin `pgoutput`, protocol version 1.

Messages of rows (`INSERT`, `UPDATE`, `DELETE`) are a letter, the relation's oid and one or two tuples; they are not
parsed here, since there are many.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from gauss.model.errors import ProtocolError

BEGIN, COMMIT, RELATION, TRUNCATE = b"BCRT"
INSERT, UPDATE, DELETE = b"IUD"
IGNORED = b"YOM"
"""Types, origins and logical messages."""
BEGIN_LSN_AT = 1
"""Where a BEGIN has the position of its COMMIT."""
COMMIT_END_AT = 10
"""Where a COMMIT has the position behind itself."""
OID_AT = 1
"""Where a message about a relation has its oid."""
OLD_TUPLE = ord("O")
"""Kind of an old tuple with all columns, not only those of the key."""
NULL, UNCHANGED = b"nu"


class RelationMessage(NamedTuple):
    """The columns of a relation in the messages that follow."""

    oid: int
    schema: str
    table: str
    columns: tuple[str, ...]
    key: tuple[str, ...]
    """Columns of the replica identity."""


def parse_relation(message: bytes) -> RelationMessage:
    """Parses a relation message; raises ProtocolError."""
    try:
        (oid,), at = struct.unpack_from(">I", message, 1), 5
        schema, at = _name(message, at)
        table, at = _name(message, at)
        _identity, count = struct.unpack_from(">bh", message, at)
        at += 3
        names, key = [], []
        for _ in range(count):
            in_key = message[at] & 1
            name, at = _name(message, at + 1)
            at += 8  # type and modifier
            names.append(name)
            if in_key:
                key.append(name)
    except (struct.error, IndexError, ValueError) as error:
        raise ProtocolError(f"Postgres sent a relation message that can't be read: {error}") from error
    if at != len(message):
        raise ProtocolError(f"Postgres sent a relation message with {len(message) - at} bytes behind its end")
    return RelationMessage(oid, schema or "pg_catalog", table, tuple(names), tuple(key))


def _name(message: bytes, at: int) -> tuple[str, int]:
    end = message.index(b"\0", at)
    return message[at:end].decode(), end + 1
