from __future__ import annotations

import threading
from pathlib import Path

import sqlalchemy as sa

from gauss.clients.database import Database


def test_sqlite_files_are_readable_by_their_owner_only(tmp_path: Path) -> None:
    database = Database(tmp_path / "state.db", name="state store", option="state")
    with database.transaction() as connection:
        connection.execute(sa.text("CREATE TABLE kept (id int)"))
    modes = {each.name: each.stat().st_mode & 0o777 for each in tmp_path.iterdir()}
    assert modes == {"state.db": 0o600, "state.db-wal": 0o600, "state.db-shm": 0o600}
    database.close()


def test_connections_that_open_a_new_sqlite_file_at_once_wait_for_each_other(tmp_path: Path) -> None:
    for number in range(40):
        databases = [Database(tmp_path / f"{number}.db", name="state store", option="state") for _ in range(6)]
        together, counted = threading.Barrier(len(databases)), list[int]()

        def count(database: Database, together: threading.Barrier = together, counted: list[int] = counted) -> None:
            together.wait()
            with database.transaction() as connection:
                counted.append(connection.execute(sa.text("SELECT COUNT(*) FROM sqlite_master")).scalar_one())

        threads = [threading.Thread(target=count, args=(database,)) for database in databases]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for database in databases:
            database.close()
        assert counted == [0] * len(databases)
