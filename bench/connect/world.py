"""The Postgres server, the tables and the syncs of these benchmarks."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple

from gauss.clients.embedded import EmbeddedServer, ensure
from gauss.clients.postgres.binaries import bin_folder, run_as
from gauss.clients.postgres.connect import connect

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
ROW_BYTES = 126
"""Of a row in binary COPY."""
WARM_ROWS = 25_000
"""Of the table that each process copies first, so that it has loaded and compiled what it needs."""
COLUMNS = (
    "n::bigint AS id, (n % 1000)::int AS kind, n / 7.0::float8 AS score, n % 2 = 0 AS active,"
    " '2026-01-01Z'::timestamptz + n * interval '1 s' AS created, 'person ' || lpad(n::text, 7, '0') AS name,"
    " md5(n::text) || left(md5((-n)::text), 21) AS note"
)
ARROW_LANE = {"program": "{id, kind, score, active, created, name, note}"}
"""A transform that changes nothing: rows become Arrow on their way."""
SELECT = f"SELECT {COLUMNS} FROM generate_series(1, {{rows}}) n"


class Done(NamedTuple):
    """What a child process says of its sync."""

    seconds: float
    read: int
    opaque: str = ""
    """The encoding of the rows on their way, if they did not become Arrow."""
    base_bytes: int = 0
    peaks_bytes: Sequence[int] = ()
    """The most that the process had in memory, by the kernel's own mark; in both halves if they were asked for."""


class World:
    """One embedded Postgres with the source table, and syncs that copy it."""

    def __init__(self, root: Path, server: EmbeddedServer, rows: int) -> None:
        self.root, self.server, self.rows = root, server, rows
        self.psql = str(bin_folder(run_as()) / "psql")

    @property
    def url(self) -> str:
        return self.server.endpoint.url

    def execute(self, *statements: str) -> None:
        with connect(self.server.endpoint, autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement.encode())

    def scalar(self, query: str) -> int:
        with connect(self.server.endpoint, autocommit=True) as connection:
            row = connection.execute(query.encode()).fetchone()
            return int(row[0]) if row else 0

    def fill(self) -> None:
        """Makes the table to copy, and the small one to warm up with."""
        for table, rows in (("people", self.rows), ("warm", WARM_ROWS)):
            self.execute(
                f"CREATE TABLE {table} AS {SELECT.format(rows=rows)}",
                f"ALTER TABLE {table} ADD PRIMARY KEY (id)",
                f"VACUUM ANALYZE {table}",
            )

    def view(self, rows: int) -> str:
        """A stream of many rows that are not stored."""
        self.execute(f"CREATE OR REPLACE VIEW made_{rows} AS {SELECT.format(rows=rows)}")
        return f"made_{rows}"

    def clear(self) -> None:
        """The same start for each: no tables of the one before, nothing left to write to disk."""
        self.execute("DROP SCHEMA IF EXISTS landing CASCADE", "CREATE SCHEMA landing", "CHECKPOINT")

    def landed(self, table: str = "landing.people") -> int:
        return self.scalar(f"SELECT count(*) FROM {table}")

    def sync(self, table: str = "people", *, destination: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
        """A sync of a table to the schema `landing`; `more` has settings of the stream, and of the sync if they are
        tables."""
        side = {"connector": "postgres", "dsn": self.url}
        stream = {key: value for key, value in more.items() if key not in ("checkpoint", "limits")}
        return {
            "name": f"bench-{table}",
            "source": side,
            "destination": destination or {**side, "schema": "landing"},
            "streams": [{"name": f"public.{table}", **stream}],
            **{key: value for key, value in more.items() if key in ("checkpoint", "limits")},
        }

    def copied(
        self, table: str = "people", rows: int = 0, *, spark: bool = False, half: int | None = None, **more: Any
    ) -> Done:
        """A sync in a process that has copied the small table before; the rows are counted. `half`: after so many rows
        the mark of memory is reset."""
        self.clear()
        order = {"warm": self.sync("warm", **more), "sync": self.sync(table, **more), "spark": spark, "half": half}
        done = run_child(order)
        assert bool(done.opaque) != ("transform" in more), f"rows went as {done.opaque or 'Arrow'}"
        assert self.landed(f"landing.{table}") == done.read == (rows or self.rows)
        return done

    def command(self) -> float:
        """Seconds of `gauss sync` from its start to its end."""
        self.clear()
        with tempfile.TemporaryDirectory() as folder:
            sync = self.sync()
            file = Path(folder) / "gauss.toml"
            lines = [f"{key} = {_toml(sync[key])}" for key in ("name", "source", "destination", "streams")]
            file.write_text("\n".join(["[[syncs]]", *lines]) + "\n")
            began = time.perf_counter()
            command = [sys.executable, "-m", "gauss.cli.main", "sync", str(file), "--json", "--data-dir", folder]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            seconds = time.perf_counter() - began
        assert self.landed() == self.rows
        return seconds

    def pipe(self) -> float:
        """Seconds of psql's binary COPY from the table into one without an index."""
        self.clear()
        self.execute("CREATE TABLE landing.people (LIKE public.people)")
        out, into = (
            [self.psql, self.url, "-qc", f"COPY {table} {way} (FORMAT binary)"]
            for table, way in (("public.people", "TO STDOUT"), ("landing.people", "FROM STDIN"))
        )
        began = time.perf_counter()
        with subprocess.Popen(out, stdout=subprocess.PIPE, cwd="/") as reading:
            subprocess.run(into, stdin=reading.stdout, check=True, cwd="/")
        seconds = time.perf_counter() - began
        assert self.landed() == self.rows
        return seconds


def run_child(order: dict[str, Any], folder: str = "") -> Done:
    """Runs a sync in a process of its own. `folder`: that of an earlier run, whose state it finds."""
    with nullcontext(folder) if folder else tempfile.TemporaryDirectory() as place:
        done = subprocess.run(
            [sys.executable, "-m", "bench.connect.child"],
            input=json.dumps({**order, "folder": place}).encode(),
            stdout=subprocess.PIPE,
            check=True,
            cwd=ROOT,
        )
    return Done(**json.loads(done.stdout.splitlines()[-1]))


def _toml(value: Any) -> str:
    """An inline value of TOML."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_toml(each)}" for key, each in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(_toml(each) for each in value) + "]"
    return json.dumps(value)


@contextmanager
def new_world(rows: int) -> Iterator[World]:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        root.chmod(0o755)  # Postgres runs as another user if this one is root
        with ensure("postgres", root / "postgres") as server:
            made = World(root, server, rows)
            made.fill()
            yield made
