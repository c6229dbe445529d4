"""The audit log: who changed what, and when."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import sqlalchemy as sa

from gauss.clients.database import Database
from gauss.fleet.store.clock import now_ms
from gauss.fleet.store.schema import AUDIT


class AuditEntry(NamedTuple):
    id: int
    at: int
    who: str
    action: str
    """Such as `pipeline.create` or `config.kafka`."""
    pipeline_id: str | None
    detail: dict[str, Any]
    """Never a secret."""


def record(connection: sa.Connection, who: str, action: str, pipeline_id: str | None = None, **detail: Any) -> None:
    """Adds an entry in the transaction of the change itself."""
    row = {"at": now_ms(), "who": who, "action": action, "pipeline_id": pipeline_id, "detail": json.dumps(detail)}
    connection.execute(AUDIT.insert().values(**row))


class AuditLog:
    """The entries, newest first."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def entries(
        self, *, limit: int = 100, before: int | None = None, pipeline_id: str | None = None
    ) -> list[AuditEntry]:
        """`before`: only entries with a smaller id."""
        query = sa.select(AUDIT).order_by(AUDIT.c.id.desc()).limit(limit)
        if before is not None:
            query = query.where(AUDIT.c.id < before)
        if pipeline_id is not None:
            query = query.where(AUDIT.c.pipeline_id == pipeline_id)
        with self._database.transaction() as connection:
            rows = connection.execute(query).all()
        return [
            AuditEntry(row.id, row.at, row.who, row.action, row.pipeline_id, json.loads(row.detail)) for row in rows
        ]
