"""Removes many rows in many short transactions: a long one would be cut off."""

from __future__ import annotations

import sqlalchemy as sa

from gauss.clients.database import Database

PART = 500
"""Rows of a transaction. Each may have a megabyte."""


def remove_in_parts(database: Database, table: sa.Table, condition: sa.ColumnElement[bool]) -> None:
    """Removes the rows of a table that fit a condition."""
    key = sa.tuple_(*table.primary_key.columns)
    some = sa.select(*table.primary_key.columns).where(condition).limit(PART)
    while True:
        with database.transaction() as connection:
            if connection.execute(table.delete().where(key.in_(some))).rowcount < PART:
                return
