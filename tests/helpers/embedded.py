"""Statements in the embedded servers of a run, as any client sends them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gauss.clients.clickhouse.connect import connect
from gauss.clients.endpoint import Endpoint, read_endpoint
from gauss.clients.postgres.connect import connect as connect_postgres


def execute(endpoint: Endpoint, system: str, statement: str) -> tuple[Any, ...] | None:
    """Runs a statement; returns its first row, or an empty tuple if it returns no rows."""
    if system == "clickhouse":
        with connect(endpoint) as client:
            return tuple((client.query(statement).result_rows or [()])[0])
    with connect_postgres(endpoint, autocommit=True) as connection:
        done = connection.execute(statement.encode())
        return done.fetchone() if done.description else ()


def ask(data_dir: Path, system: str, statement: str, endpoint: Endpoint | None = None) -> tuple[Any, ...] | None:
    """As `execute`, in the server of a data directory unless another is given; `None` while it does not answer."""
    found = endpoint or read_endpoint(data_dir / system)
    try:
        return None if found is None else execute(found, system, statement)
    except Exception:
        return None
