"""Logical replication slots, and positions in the WAL."""

from __future__ import annotations

import hashlib
import re
from typing import NamedTuple

import psycopg.conninfo

from gauss.clients.endpoint import Endpoint
from gauss.clients.postgres.connect import Connection, connect
from gauss.clients.postgres.quote import identifier

PLUGIN = "pgoutput"
_OPTIONS_VERSION = 150_000
"""The first server whose CREATE_REPLICATION_SLOT takes options in parentheses."""
_READABLE_LETTERS = 40
_SLOT = """
SELECT coalesce(plugin, ''), coalesce(database, ''), confirmed_flush_lsn - '0/0'::pg_lsn, restart_lsn IS NULL,
    coalesce(to_jsonb(s) ->> 'wal_status' = 'lost', false)
FROM pg_replication_slots s WHERE slot_name = %s
"""
_WAL = """
SELECT CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_flush_lsn() END - '0/0'::pg_lsn
"""


class Slot(NamedTuple):
    """A replication slot."""

    plugin: str
    database: str
    confirmed: int
    """What lies before is no longer sent."""
    lost: bool
    """Whether the server has removed WAL that the slot needs."""


class NewSlot(NamedTuple):
    """A slot that was just created."""

    position: int
    """Transactions that commit from here on are sent."""
    snapshot: str
    """Sees all transactions before it; lives as long as the connection that created the slot does nothing else."""


def replication_name(database: str, sync: str, stream: str) -> str:
    """The name of the slot and the publication of a stream: letters, digits and underscores, at most 63. Slots of all
    databases of a server share their names."""
    parts = "".join(f"{len(part)} {part}" for part in (database, sync, stream))
    digest = hashlib.sha256(parts.encode(errors="surrogatepass")).hexdigest()[:12]
    readable = re.sub("[^a-z0-9]+", "_", f"{sync}_{stream}".lower())[:_READABLE_LETTERS].strip("_")
    return f"gauss_{readable}_{digest}"


def lsn_text(position: int) -> str:
    """A position as Postgres writes it, such as `0/16B3748`."""
    return f"{position >> 32:X}/{position & 0xFFFFFFFF:X}"


def lsn_number(text: str) -> int:
    """The inverse of `lsn_text`; raises ValueError."""
    high, slash, low = text.partition("/")
    if not slash or not re.fullmatch("[0-9A-Fa-f]{1,8}/[0-9A-Fa-f]{1,8}", text):
        raise ValueError(f"{text!r} is not a position in the WAL, such as 0/16B3748")
    return int(high, 16) << 32 | int(low, 16)


def connect_replication(address: str | Endpoint) -> Connection:
    """A connection that takes replication commands, and SQL by the simple protocol."""
    url = address.url if isinstance(address, Endpoint) else address
    # In a database of encoding SQL_ASCII, answers would else be bytes.
    given = psycopg.conninfo.make_conninfo(url, replication="database", client_encoding="UTF8")
    return connect(given, autocommit=True)


def create_slot(connection: Connection, name: str) -> NewSlot:
    """Creates a slot and exports its snapshot. Waits for the transactions that are running."""
    new = connection.info.server_version >= _OPTIONS_VERSION
    option = "(SNAPSHOT 'export')" if new else "EXPORT_SNAPSHOT"
    row = connection.execute(
        f"CREATE_REPLICATION_SLOT {identifier(name)} LOGICAL {PLUGIN} {option}".encode()
    ).fetchone()
    assert row is not None
    return NewSlot(lsn_number(row[1]), row[2])


def find_slot(connection: Connection, name: str) -> Slot | None:
    row = connection.execute(_SLOT, [name]).fetchone()
    if row is None:
        return None
    plugin, database, confirmed, unreserved, lost = row
    return Slot(plugin, database, int(confirmed or 0), bool(lost or unreserved))


def drop_slot(connection: Connection, name: str) -> None:
    connection.execute("SELECT pg_drop_replication_slot(%s)", [name])


def advance_slot(connection: Connection, name: str, position: int) -> None:
    """Confirms what lies before a position: the server may remove it."""
    connection.execute("SELECT pg_replication_slot_advance(%s, %s)", [name, lsn_text(position)])


def wal_end(connection: Connection) -> int:
    """The position behind what is on the server's disk."""
    row = connection.execute(_WAL).fetchone()
    assert row is not None
    return int(row[0])


def peek_query(slot: str, publication: str, end: int, changes: int | None) -> str:
    """The SELECT of messages, in the order of commits, without confirming them: of all transactions that commit before
    `end`, or of the first ones that have `changes` together. The names are those of `replication_name`."""
    return (
        f"SELECT data FROM pg_logical_slot_peek_binary_changes('{slot}', '{lsn_text(end)}', {changes or 'NULL'},"
        f" 'proto_version', '1', 'publication_names', '{publication}')"
    )
