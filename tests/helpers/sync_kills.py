"""Kills parts of syncs at random moments, and looks whether each row is there once.

`make kills` runs 200 rounds in a folder and goes on there when it is started again.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil

from gauss.clients.embedded import EmbeddedServer, ensure
from gauss.clients.postgres.connect import Connection, connect

SLOW_SOURCE = """
import os, pathlib, time
from gauss.plugins.connectors.postgres.source import PostgresSource

class Slow(PostgresSource):
    def run_read(self, stream):
        emit = self._host.emit_batch
        def slowly(batch):
            emit(batch)
            (pathlib.Path(os.environ["GAUSS_PLUGIN_DIR"]) / f"reading.{{os.getpid()}}").touch()
            time.sleep({seconds})
        self._host.emit_batch = slowly
        return super().run_read(stream)
"""
RUN = """
import json, sys
from pathlib import Path
from gauss import registry
from gauss.config.syncs import SyncDef
from gauss.connect.sync import Sync

here, sync = Path(sys.argv[1]), json.loads(sys.argv[2])
registry.look_in(here)
result = Sync(SyncDef.model_validate(sync), here, here / ".gauss").run()
print(result.status, result.error)
sys.exit(0 if result.status == "succeeded" else 3)
"""
INCREMENT = {"mode": "incremental", "cursor": "id"}
STREAMS: dict[str, dict[str, Any]] = {
    "refresh": {},
    "increment": INCREMENT,
    "upsert": {**INCREMENT, "key": ["id"]},
    "cdc": {"mode": "cdc", "key": ["id"]},
    "changes": {"mode": "cdc", "write": "append"},
    "query": {**INCREMENT, "transform": {"sql": "SELECT * FROM input"}},
}
ROUNDS = [
    *(("refresh", "coordinator", False), ("increment", "coordinator", False), ("upsert", "coordinator", False)),
    *(("cdc", "coordinator", False), ("changes", "coordinator", False)),
    *(("refresh", "server", False), ("increment", "server", False), ("cdc", "server", False)),
    *(("refresh", "worker", True), ("query", "worker", True), ("refresh", "jvm", True)),
]
"""Stream, victim, whether it runs on Spark."""
MORE_ROUNDS = [
    *(("increment", "worker", True), ("cdc", "worker", True), ("query", "jvm", True), ("changes", "server", False)),
    *(("increment", "coordinator", True), ("query", "coordinator", True), ("upsert", "server", True)),
]
"""Of the long run."""
WRONG_CHANGES = """
SELECT p.id, inserts, updates FROM people p LEFT JOIN (
    SELECT id, count(*) FILTER (WHERE _op = 'insert') AS inserts, count(*) FILTER (WHERE _op = 'update') AS updates,
        max(regexp_count(name, '!')) FILTER (WHERE _op = 'insert') AS first
    FROM {table} GROUP BY id
) AS c USING (id)
WHERE inserts IS DISTINCT FROM 1 OR updates IS DISTINCT FROM regexp_count(p.name, '!') - first LIMIT 5
"""
"""Rows that were not inserted once, or whose every update adds a mark but is not among the changes once."""


class Kills:
    """A Postgres server with a table, and syncs of it that are killed."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.random = folder, random.Random(seed)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "slow.py").write_text(SLOW_SOURCE.format(seconds=0.02))
        self.server: EmbeddedServer = ensure("postgres", folder / "postgres")
        with self._connected() as connection:
            connection.execute(
                "CREATE TABLE IF NOT EXISTS people (id bigint PRIMARY KEY, name text NOT NULL, data jsonb)"
            )

    def close(self) -> None:
        self.server.stop()

    def _connected(self) -> Connection:
        return connect(self.server.endpoint, autocommit=True)

    def round(self, stream: str, victim: str, *, spark: bool) -> None:
        """Changes the source, kills a part of the sync, lets it end, and compares."""
        self._change()
        for marker in self.folder.glob("reading.*"):
            marker.unlink()
        with subprocess.Popen(
            self._command(stream, spark), stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        ) as process:
            if self._wait_for_reading(process):
                time.sleep(self.random.random() * 0.6)
                self._kill(victim, process)
            process.communicate(timeout=200)
        self._finish(stream, spark)
        self._compare(stream, f"{stream}, {victim}{' on Spark' if spark else ''}")

    def _change(self) -> None:
        new, few = self.random.randint(2_000, 6_000), self.random.randint(1, 50)
        with self._connected() as connection:
            connection.execute(
                "INSERT INTO people SELECT m + n, 'person ' || n, jsonb_build_object('n', n)"
                f" FROM (SELECT coalesce(max(id), 0) AS m FROM people) AS s, generate_series(1, {new}) n".encode()
            )
            connection.execute(f"UPDATE people SET name = name || '!' WHERE id % 97 = {few}".encode())

    def _command(self, stream: str, spark: bool) -> list[str]:
        name = f"{stream}_spark" if spark else stream
        side = {"dsn": self.server.endpoint.url}
        sync = {
            "name": name,
            "runs_on": "spark" if spark else "local",
            "source": {**side, "connector": "slow:Slow", "partition_bytes": "256KiB"},
            "destination": {**side, "connector": "postgres", "schema": name},
            "streams": [{"name": "public.people", **STREAMS[stream]}],
            "limits": {"max_batch_bytes": "32KiB"},
            "checkpoint": {"rows": 1_000},
        }
        return [sys.executable, "-c", RUN, str(self.folder), json.dumps(sync)]

    def _wait_for_reading(self, process: subprocess.Popen[bytes]) -> bool:
        deadline = time.monotonic() + 120
        while process.poll() is None and time.monotonic() < deadline:
            if any(self.folder.glob("reading.*")):
                return True
            time.sleep(0.01)
        return False  # it had little to do, and has ended

    def _kill(self, victim: str, process: subprocess.Popen[bytes]) -> None:
        with contextlib.suppress(psutil.NoSuchProcess):
            if victim == "server":
                self._kill_server()
                return
            for each in self._victims(victim, process):
                each.kill()

    def _victims(self, victim: str, process: subprocess.Popen[bytes]) -> list[psutil.Process]:
        run = psutil.Process(process.pid)
        if victim == "coordinator":
            return [run]
        children = run.children(recursive=True)
        if victim == "jvm":
            return [each for each in children if "java" in each.name()]
        reading = {int(path.suffix[1:]) for path in self.folder.glob("reading.*")}
        return [each for each in children if each.pid in reading][:1]

    def _kill_server(self) -> None:
        assert self.server.process is not None
        owner = psutil.Process(self.server.process.pid)
        for each in [*owner.children(recursive=True), owner]:
            with contextlib.suppress(psutil.NoSuchProcess):
                each.kill()
        self.server.process.wait()
        self.server = ensure("postgres", self.folder / "postgres")

    def _finish(self, stream: str, spark: bool) -> None:
        for _ in range(4):
            done = subprocess.run(
                self._command(stream, spark), capture_output=True, text=True, timeout=300, check=False
            )
            if done.returncode == 0:
                return
        raise AssertionError(f"{stream} does not end: {done.stdout} {done.stderr[-3000:]}")

    def _compare(self, stream: str, what: str) -> None:
        """Each row is there once; what was updated before it was read is as it was then."""
        name = f"{stream}_spark" if what.endswith("on Spark") else stream
        table = f'"{name}".people'
        with self._connected() as connection:
            if stream == "changes":
                assert connection.execute(WRONG_CHANGES.format(table=table).encode()).fetchall() == [], what
                return
            columns = "id, name, data" if stream in ("refresh", "cdc") else "id, data"  # updates have no new cursor
            here, there = f"SELECT {columns} FROM people", f"SELECT {columns} FROM {table}"
            differing = f"({here} EXCEPT ALL {there}) UNION ALL ({there} EXCEPT ALL {here}) LIMIT 5"
            assert connection.execute(differing.encode()).fetchall() == [], what


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--folder", type=Path, default=Path(".cache/kills"))
    given = parser.parse_args()
    folder = given.folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    record = folder / "rounds.json"
    done = json.loads(record.read_text()) if record.exists() else []
    kills = Kills(folder, seed=len(done))
    try:
        while len(done) < given.kills:
            rounds = [*ROUNDS, *MORE_ROUNDS]
            stream, victim, spark = rounds[len(done) % len(rounds)]
            began = time.monotonic()
            kills.round(stream, victim, spark=spark)
            done.append([stream, victim, spark])
            record.write_text(json.dumps(done))
            print(f"{len(done)} of {given.kills}: {stream}, {victim}{', Spark' if spark else ''}:"
                  f" 0 lost, 0 duplicate ({time.monotonic() - began:.0f} s)", flush=True)  # fmt: skip
    finally:
        kills.close()


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    main()
