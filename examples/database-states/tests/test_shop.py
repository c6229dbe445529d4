"""Each test changes its own database, and none sees what another did."""

from __future__ import annotations

import psycopg
import pytest


def test_totals_add_up(database: psycopg.Connection) -> None:
    found = dict(database.execute("SELECT name, cents FROM totals").fetchall())
    assert found == {"Ada": 3000, "Grace": 2500, "Edsger": 0}


def test_a_customer_with_orders_is_not_deleted(database: psycopg.Connection) -> None:
    with pytest.raises(psycopg.errors.ForeignKeyViolation):
        database.execute("DELETE FROM customers WHERE name = 'Ada'")


def test_everything_may_be_deleted(database: psycopg.Connection) -> None:
    database.execute("TRUNCATE orders, customers")
    database.commit()
    assert database.execute("SELECT count(*) FROM totals").fetchone() == (0,)
