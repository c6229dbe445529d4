"""Pipelines and what their users want of them: started or stopped, with how many replicas."""

from __future__ import annotations

import uuid
from typing import Any, Literal, NamedTuple

import sqlalchemy as sa

from gauss.clients.database import Database
from gauss.fleet.store import audit
from gauss.fleet.store.clock import now_ms
from gauss.fleet.store.parts import remove_in_parts
from gauss.fleet.store.schema import CONFIG_VERSIONS, DEAD_LETTERS, FILES, LEASES, PIPELINES, STATE, TAKEOVERS
from gauss.model.errors import ConfigError, NotFound

MOST_REPLICAS = 1000
ALERT_RATIO = 0.05
Desired = Literal["started", "stopped"]


class Pipeline(NamedTuple):
    id: str
    name: str
    description: str
    version: int
    """The newest version of its configs."""
    created_at: int
    updated_at: int
    alert_ratio: float
    """Status warns when a larger share of recent records became dead letters."""
    desired: Desired
    replicas: int
    is_file: bool
    """Whether it is a whole file of Gauss."""


class Pipelines:
    """The pipelines of a store."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def create(self, name: str, description: str, who: str) -> Pipeline:
        """Creates a stopped pipeline with one replica."""
        pipeline_id = uuid.uuid4().hex
        row = {"id": pipeline_id, "name": name, "description": description, "version": 0, "alert_ratio": ALERT_RATIO}
        with self._database.transaction() as connection:
            connection.execute(PIPELINES.insert().values(**row, created_at=now_ms(), updated_at=now_ms()))
            state = {"pipeline_id": pipeline_id, "desired": "stopped", "replicas": 1}
            connection.execute(STATE.insert().values(**state, updated_at=now_ms()))
            _make_slots(connection, pipeline_id, 1)
            audit.record(connection, who, "pipeline.create", pipeline_id, name=name)
            return _get(connection, pipeline_id)

    def list(self) -> list[Pipeline]:
        """All pipelines, the oldest first."""
        with self._database.transaction() as connection:
            rows = connection.execute(_SELECT.order_by(PIPELINES.c.created_at, PIPELINES.c.id)).all()
        return [_pipeline(row) for row in rows]

    def get(self, pipeline_id: str) -> Pipeline:
        """Raises NotFound."""
        with self._database.transaction() as connection:
            return _get(connection, pipeline_id)

    def update(
        self,
        pipeline_id: str,
        who: str,
        *,
        name: str | None = None,
        description: str | None = None,
        alert_ratio: float | None = None,
    ) -> Pipeline:
        """Changes what is given."""
        given = {"name": name, "description": description, "alert_ratio": alert_ratio}
        changes = {key: value for key, value in given.items() if value is not None}
        with self._database.transaction() as connection:
            old = locked(connection, pipeline_id)
            changes = {key: value for key, value in changes.items() if getattr(old, key) != value}
            if changes:
                _touch(connection, pipeline_id, **changes)
                audit.record(connection, who, "pipeline.update", pipeline_id, **changes)
            return _get(connection, pipeline_id)

    def delete(self, pipeline_id: str, who: str) -> None:
        """Deletes a pipeline with all that belongs to it. Workers that hold its slots lose them at their next renewal,
        and can no longer commit. What there may be much of goes first, so that the rest takes no time."""
        self.get(pipeline_id)
        for table in (DEAD_LETTERS, CONFIG_VERSIONS):
            remove_in_parts(self._database, table, table.c.pipeline_id == pipeline_id)
        with self._database.transaction() as connection:
            found = _get(connection, pipeline_id)
            if not connection.execute(PIPELINES.delete().where(PIPELINES.c.id == pipeline_id)).rowcount:
                raise _missing(pipeline_id)
            connection.execute(TAKEOVERS.delete().where(TAKEOVERS.c.pipeline_id == pipeline_id))
            audit.record(connection, who, "pipeline.delete", pipeline_id, name=found.name)

    def change_state(
        self, pipeline_id: str, who: str, *, desired: Desired | None = None, replicas: int | None = None
    ) -> Pipeline:
        """Changes what is given of the desired state."""
        if replicas is not None and not 1 <= replicas <= MOST_REPLICAS:
            raise ConfigError(
                f"replicas: expected 1 to {MOST_REPLICAS:,}, found {replicas:,}", hint="to stop it, set desired"
            )
        with self._database.transaction() as connection:
            old = locked(connection, pipeline_id)
            if old.is_file and (replicas or 1) > 1:
                raise ConfigError(
                    f"replicas: a pipeline that is a file runs with one replica, found {replicas}",
                    hint="its topics are those of one engine",
                )
            given = {"desired": desired, "replicas": replicas}
            changes = {key: value for key, value in given.items() if value not in (None, getattr(old, key))}
            if changes:
                where = STATE.c.pipeline_id == pipeline_id
                connection.execute(STATE.update().where(where).values(**changes, updated_at=now_ms()))
                _make_slots(connection, pipeline_id, replicas or 0)
                audit.record(connection, who, "pipeline.state", pipeline_id, **changes)
            return _get(connection, pipeline_id)


IS_FILE = sa.exists().where(FILES.c.pipeline_id == PIPELINES.c.id)
_SELECT = sa.select(PIPELINES, STATE.c.desired, STATE.c.replicas, IS_FILE.label("is_file")).join(
    STATE, STATE.c.pipeline_id == PIPELINES.c.id
)


def _get(connection: sa.Connection, pipeline_id: str) -> Pipeline:
    row = connection.execute(_SELECT.where(PIPELINES.c.id == pipeline_id)).first()
    if row is None:
        raise _missing(pipeline_id)
    return _pipeline(row)


def _pipeline(row: Any) -> Pipeline:
    return Pipeline(*row)._replace(is_file=bool(row.is_file))


def locked(connection: sa.Connection, pipeline_id: str) -> Pipeline:
    """A pipeline that no other transaction changes meanwhile. Every change of a pipeline locks its row first, so that
    no two wait for each other."""
    lock = sa.select(PIPELINES.c.id).where(PIPELINES.c.id == pipeline_id).with_for_update(key_share=True)
    connection.execute(lock)
    return _get(connection, pipeline_id)


def _touch(connection: sa.Connection, pipeline_id: str, **changes: Any) -> None:
    where = PIPELINES.c.id == pipeline_id
    connection.execute(PIPELINES.update().where(where).values(**changes, updated_at=now_ms()))


def _make_slots(connection: sa.Connection, pipeline_id: str, replicas: int) -> None:
    """Adds the missing rows of slots below `replicas`. Rows are never removed, because their epochs only grow."""
    held = sa.select(sa.func.count()).where(LEASES.c.pipeline_id == pipeline_id)
    first = int(connection.execute(held).scalar_one())
    rows = [{"pipeline_id": pipeline_id, "slot": slot, "epoch": 0} for slot in range(first, replicas)]
    if rows:
        made = LEASES.insert().values(lease_until=now_ms(), state="", reason="")
        connection.execute(made, rows)


def _missing(pipeline_id: str) -> NotFound:
    return NotFound(f'no pipeline "{pipeline_id}"', hint="see GET /api/pipelines")
