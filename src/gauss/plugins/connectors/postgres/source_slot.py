"""The replication slot and the publication of a stream: created for its snapshot, checked and confirmed later."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from gauss.clients.postgres.connect import Connection
from gauss.clients.postgres.publication import PublishedTable, find_publication, make_publication, publication_ddl
from gauss.clients.postgres.replication import (
    PLUGIN,
    advance_slot,
    drop_slot,
    find_slot,
    lsn_number,
    lsn_text,
    replication_name,
    wal_end,
)
from gauss.contracts.connector.cursor import CursorValue, JsonCursor
from gauss.contracts.connector.errors import ConnectorError, ErrorCategory
from gauss.contracts.connector.host import Host, LogLevel
from gauss.contracts.connector.progress import StateScope
from gauss.plugins.connectors.postgres.source_errors import connector_errors

_NO_OBJECT, _UNUSABLE, _NO_MORE_SLOTS = "PG_42704", "PG_55000", "PG_53400"
_OWN = "slot"
"""The key of the slot's name in the state of the stream."""
_LOST_CODES = (_NO_OBJECT, _UNUSABLE)


class StreamSlot:
    """The slot and the publication of one stream, which have the same name."""

    def __init__(self, host: Host, stream: str, connection: Connection, table: PublishedTable) -> None:
        """`connection`: for short statements."""
        self._host, self._stream, self._connection, self._table = host, stream, connection, table
        self.name = replication_name(connection.info.dbname, host.pipeline, stream)
        self._entry = 0

    # --- the first run ---

    def prepare(self) -> None:
        """Creates the publication and drops a slot of an unfinished snapshot, or of before a reset. Raises
        ConnectorError for one that was created with another state."""
        with self.errors():
            self._check_level()
            if find_slot(self._connection, self.name) is not None and not self._is_own():
                raise self._taken()
            self._own()
            found = find_publication(self._connection, self.name, self._table)
            if found is None or not found.fits:
                self._publish()
            found = find_publication(self._connection, self.name, self._table)
            self._entry = found.entry if found is not None else 0
            if find_slot(self._connection, self.name) is not None:
                self._host.log(
                    LogLevel.INFO, f"dropping the slot {self.name} of an earlier run: the stream starts anew"
                )
                drop_slot(self._connection, self.name)

    def _is_own(self) -> bool:
        """Whether the slot was created with the state of this sync, not by one of its name in another installation."""
        return self._host.state_get(StateScope.STREAM, _OWN) == self.name.encode()

    def _own(self) -> None:
        if not self._is_own():
            self._host.state_put(StateScope.STREAM, _OWN, self.name.encode())

    def _taken(self) -> ConnectorError:
        return ConnectorError.config(
            "SLOT_TAKEN",
            f"{self._stream}: the replication slot {self.name} exists, and the state of this sync does not know it: a"
            f" sync with the name {self._host.pipeline} in another data directory uses it, or did",
            hint="give one of the syncs another name; or, if nobody uses the slot, run on the source:"
            f" SELECT pg_drop_replication_slot('{self.name}')",
        )

    def _check_level(self) -> None:
        level = self._connection.execute("SHOW wal_level").fetchone()
        if level != ("logical",):
            found = level[0] if level else "none"
            raise ConnectorError.config(
                "WAL_LEVEL",
                f"the server has wal_level = {found}, changes need logical",
                hint="ALTER SYSTEM SET wal_level = logical, and restart the server",
            )

    def _publish(self) -> None:
        try:
            with connector_errors():
                make_publication(self._connection, self.name, self._table)
        except ConnectorError as error:
            if error.category is not ErrorCategory.PERMISSION:
                raise
            raise ConnectorError.permission(
                "NO_PUBLICATION",
                f"{self._stream}: the publication {self.name} can't be created: {error.message}",
                hint=f"let the owner of the table, with CREATE on the database, run:"
                f" {publication_ddl(self.name, self._table)}",
            ) from error

    def drop(self) -> None:
        """Drops the slot, so that it does not hold back WAL for nothing. Best effort."""
        try:
            with connector_errors():
                drop_slot(self._connection, self.name)
        except ConnectorError as error:
            self._host.log(LogLevel.WARN, f"the slot {self.name} remains until the next run: {error.message}")

    # --- later runs ---

    def cursor(self, position: int) -> CursorValue:
        return JsonCursor({"lsn": lsn_text(position), "publication": self._entry})

    def resume(self, cursor: CursorValue) -> int:
        """The position of a cursor, which is confirmed; raises ConnectorError if changes behind it may be missing."""
        position, self._entry = self._parsed(cursor)
        with self.errors():
            self._check_level()
            self.check_publication()
            slot = find_slot(self._connection, self.name)
            if slot is None:
                raise self._lost("SLOT_GONE", "does not exist any more")
            if slot.plugin != PLUGIN or slot.database != self._connection.info.dbname:
                raise self._lost("SLOT_GONE", f"is one of {slot.plugin} in database {slot.database}")
            if slot.lost:
                raise self._lost("SLOT_LOST", "was invalidated: the server has removed WAL that it needs")
            if slot.confirmed > position:
                raise self._lost("SLOT_MOVED", f"was moved to {lsn_text(slot.confirmed)} by somebody else")
            if position > wal_end(self._connection):
                raise self._lost("CURSOR_AHEAD", "is behind the cursor: the server was restored from a backup")
            self.confirm(position)
            self._own()
        return position

    def confirm(self, position: int) -> None:
        """Confirms changes that the destination has committed."""
        slot = find_slot(self._connection, self.name)
        if slot is None:
            raise self._lost("SLOT_GONE", "does not exist any more")
        if slot.confirmed < position:
            advance_slot(self._connection, self.name, position)

    def committed(self) -> int:
        """The position that the destination has committed in this run; 0 before the first."""
        found = self._host.committed
        return 0 if found is None else self._parsed(found)[0]

    def check_publication(self) -> None:
        """Raises ConnectorError if changes were not published: newer servers only warn in their log."""
        found = find_publication(self._connection, self.name, self._table)
        if found is None or not found.fits or found.entry != self._entry:
            what = "does not exist any more" if found is None else "was changed, or the table was made anew"
            raise self._lost("PUBLICATION_CHANGED", what, "publication")

    def _parsed(self, cursor: CursorValue) -> tuple[int, int]:
        value: Any = cursor.value if isinstance(cursor, JsonCursor) else None
        try:
            return lsn_number(value["lsn"]), int(value["publication"])
        except (TypeError, KeyError, ValueError):
            raise ConnectorError.config(
                "BAD_CURSOR",
                f"{self._stream}: the cursor {cursor.to_json()} is not one of CDC, such as"
                ' {"json": {"lsn": "0/16B3748", "publication": 16402}}',
                hint=self._reset(),
            ) from None

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Errors of replication with what to do about them."""
        try:
            with connector_errors():
                yield
        except ConnectorError as error:
            raise self._sorted(error) from error

    def _sorted(self, error: ConnectorError) -> ConnectorError:
        if error.code in _LOST_CODES:
            return self._lost(
                "SLOT_GONE" if error.code == _NO_OBJECT else "SLOT_LOST", f"can't be used: {error.message}"
            )
        if error.code == _NO_MORE_SLOTS:
            hint = "raise max_replication_slots of the server, or drop slots that nobody uses"
            return ConnectorError.config("NO_MORE_SLOTS", error.message, hint=hint)
        if error.category is ErrorCategory.PERMISSION and error.code != "NO_PUBLICATION":
            hint = "ALTER ROLE … REPLICATION for the user, and GRANT SELECT on the table to it"
            return ConnectorError.permission("NO_REPLICATION", error.message, hint=hint)
        return error

    def _lost(self, code: str, why: str, what: str = "replication slot") -> ConnectorError:
        return ConnectorError.config(
            code, f"{self._stream}: the {what} {self.name} {why}; changes may be missing", hint=self._reset()
        )

    def _reset(self) -> str:
        return f"run `gauss syncs state reset {self._host.pipeline} {self._stream}`: the next run reads everything anew"
