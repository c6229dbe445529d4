"""The transactions of older runs are ended, and no others."""

from __future__ import annotations

import psycopg
import pytest

from gauss.clients.endpoint import Endpoint
from gauss.clients.postgres.connect import Connection, connect
from gauss.clients.postgres.watermarks import Watermarks

ATTEMPTS = 1 << 16
"""Of a run: the generation of a stream grows by so much with every run."""


@pytest.mark.parametrize("run", [1, (1 << 15) - 1, 1 << 15, (1 << 16) - 1, 1 << 20])
def test_older_transaction_is_ended_and_a_newer_one_continues(
    postgres: Endpoint, connection: Connection, run: int
) -> None:
    marks = Watermarks("public", "sync", "stream")
    generation = run * ATTEMPTS + 1
    with connect(postgres) as older, connect(postgres) as same, connect(postgres) as newer:
        for each, number in ((older, generation), (same, generation + ATTEMPTS), (newer, generation + ATTEMPTS + 1)):
            marks.enter(each, number)
        marks.end_older(connection, generation + ATTEMPTS)
        for each in (same, newer):
            each.execute("SELECT 1")
        with pytest.raises(psycopg.OperationalError):
            older.execute("SELECT 1")


def test_transaction_of_a_sync_into_another_schema_continues(postgres: Endpoint, connection: Connection) -> None:
    with connect(postgres) as other:
        Watermarks("development", "sync", "stream").enter(other, ATTEMPTS)
        Watermarks("production", "sync", "stream").end_older(connection, 2 * ATTEMPTS)
        other.execute("SELECT 1")
