"""A CDC sync that is killed at any point loses and duplicates no rows."""

from __future__ import annotations

import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from gauss.clients.endpoint import Endpoint
from gauss.clients.postgres.connect import Connection, connect
from helpers.run import GAUSS
from helpers.waiting import wait_until
from plugins.connectors.postgres.conftest import drop_replication

pytestmark = pytest.mark.fault
CONFIG = """
[[syncs]]
name = "killed"
source = {{ connector = "postgres", dsn = "{dsn}" }}
destination = {{ connector = "postgres", dsn = "{dsn}", schema = "{schema}" }}
streams = [{{ name = "{schema}.t", mode = "cdc", table = "copy", {write} }}]
"""
WRITES = {"upsert": 'write = "upsert", key = ["id"]', "append": 'write = "append"'}
Sql = Callable[[str], list[Any]]


class KilledSync:
    """Runs `gauss sync`, and kills it at a point."""

    def __init__(self, folder: Path, postgres: Endpoint, schema: str, write: str) -> None:
        self._file, self._data, self._postgres, self._schema = folder / "gauss.toml", folder / "data", postgres, schema
        self._file.write_text(CONFIG.format(dsn=postgres.url, schema=schema, write=WRITES[write]))

    def start(self) -> subprocess.Popen[bytes]:
        command = [GAUSS, "sync", str(self._file), "--data-dir", str(self._data), "--local", "--json"]
        return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)

    def run(self) -> None:
        process = self.start()
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors

    def kill_before_the_first_write(self) -> None:
        """While the source is under way, and the destination has written nothing."""
        with self._blocked() as process:
            process.kill()
            process.communicate()

    def kill_after_the_commit(self, run_sql: Sql) -> None:
        """When the destination has committed, and neither the cursor is stored nor the slot confirmed."""
        before = self._watermark(run_sql)
        with closing(sqlite3.connect(self._data / "connect" / "state.db", isolation_level=None)) as state:
            with self._blocked() as process:
                state.execute("BEGIN IMMEDIATE")
            wait_until(lambda: self._watermark(run_sql) != before)
            process.kill()
            process.communicate()

    @contextmanager
    def _blocked(self) -> Iterator[subprocess.Popen[bytes]]:
        """A sync whose destination waits for its table."""
        with connect(self._postgres) as blocking:
            # A stronger lock has a transaction id, for whose end a new slot waits.
            blocking.execute(f"LOCK TABLE {self._schema}.copy IN SHARE MODE".encode())
            process = self.start()
            waits = f"SELECT 1 FROM pg_locks WHERE relation = '{self._schema}.copy'::regclass AND NOT granted"
            try:
                wait_until(lambda: process.poll() is not None or blocking.execute(waits.encode()).fetchall())
                assert process.poll() is None, process.communicate()
            except AssertionError:
                process.kill()
                raise
            yield process

    def _watermark(self, run_sql: Sql) -> list[Any]:
        if run_sql("SELECT to_regclass('_gauss_watermarks')") == [(None,)]:
            return []
        return run_sql("SELECT cursor::text, generation FROM _gauss_watermarks")


@pytest.fixture
def table(run_sql: Sql, connection: Connection) -> Iterator[None]:
    run_sql(
        "CREATE TABLE t (id int PRIMARY KEY, v text); INSERT INTO t SELECT n, 'v' || n FROM generate_series(1, 900) n"
    )
    yield
    drop_replication(connection)


@pytest.mark.usefixtures("table")
def test_upsert_killed_in_the_snapshot_and_after_commits_equals_its_source(
    tmp_path: Path, postgres: Endpoint, schema: str, run_sql: Sql
) -> None:
    sync = KilledSync(tmp_path, postgres, schema, "upsert")
    run_sql("CREATE TABLE copy (id int PRIMARY KEY, v text)")
    sync.kill_before_the_first_write()
    assert run_sql("SELECT count(*) FROM copy") == [(0,)]
    run_sql("DELETE FROM t WHERE id = 1; UPDATE t SET v = 'x' WHERE id = 2; INSERT INTO t VALUES (1001, 'new')")
    sync.kill_after_the_commit(run_sql)
    assert run_sql("SELECT count(*) FROM copy") == [(900,)]
    run_sql("DELETE FROM t WHERE id = 3; UPDATE t SET id = 1002 WHERE id = 4")
    sync.kill_before_the_first_write()
    sync.kill_after_the_commit(run_sql)
    run_sql("INSERT INTO t VALUES (3, 'back')")
    sync.run()
    assert run_sql("(TABLE t EXCEPT TABLE copy) UNION ALL (TABLE copy EXCEPT TABLE t)") == []
    assert len(run_sql("SELECT * FROM pg_replication_slots")) == 1


@pytest.mark.usefixtures("table")
def test_append_killed_in_the_snapshot_and_after_commits_has_every_change_once(
    tmp_path: Path, postgres: Endpoint, schema: str, run_sql: Sql
) -> None:
    sync = KilledSync(tmp_path, postgres, schema, "append")
    run_sql("CREATE TABLE copy (id int, v text, _op text)")
    sync.kill_before_the_first_write()
    run_sql("DELETE FROM t WHERE id = 1; UPDATE t SET v = 'x' WHERE id = 2; INSERT INTO t VALUES (1001, 'new')")
    sync.kill_after_the_commit(run_sql)
    run_sql("DELETE FROM t WHERE id = 3; UPDATE t SET id = 1002 WHERE id = 4")
    sync.kill_before_the_first_write()
    sync.kill_after_the_commit(run_sql)
    run_sql("INSERT INTO t VALUES (3, 'back')")
    sync.run()
    log = run_sql("SELECT _op, id, v FROM copy ORDER BY ctid")
    assert sorted(log[:900]) == sorted(
        [("insert", 2, "x"), ("insert", 1001, "new"), *(("insert", n, f"v{n}") for n in range(3, 901))]
    )
    assert log[900:] == [("delete", 3, None), ("delete", 4, None), ("insert", 1002, "v4"), ("insert", 3, "back")]
