"""A Postgres on which the steps of plans are executed."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import psycopg

from gauss.clients.endpoint import Endpoint
from gauss.dbstates.planning.plan import Adapter, Connection, Plan

CONTENT = """
SELECT format('%s.%s %s', c.relname, a.attname, format_type(a.atttypid, a.atttypmod))
FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'S', 'v') AND a.attnum > 0
UNION ALL SELECT format('%s: %s', c.relname, obj_description(c.oid)) FROM pg_class c
WHERE c.relnamespace = 'public'::regnamespace
UNION ALL SELECT proname || ': ' || prosrc FROM pg_proc WHERE pronamespace = 'public'::regnamespace
UNION ALL SELECT format('%s %s', sequencename, last_value) FROM pg_sequences WHERE schemaname = 'public'
ORDER BY 1
"""


class StepServer:
    """A database that steps fill."""

    def __init__(self, endpoint: Endpoint, folder: Path) -> None:
        passfile = folder / "pgpass"
        passfile.write_text(f"*:*:*:*:{endpoint.password}\n")
        passfile.chmod(0o600)
        self.connection = Connection(endpoint.host, endpoint.port, endpoint.user, endpoint.database, passfile)
        self.sql = psycopg.connect(
            host=endpoint.host,
            port=endpoint.port,
            user=endpoint.user,
            password=endpoint.password,
            dbname=endpoint.database,
            autocommit=True,
        )

    def empty(self) -> None:
        self.sql.execute("SET client_min_messages = error; DROP SCHEMA public CASCADE; CREATE SCHEMA public")

    def run(self, adapter: Adapter, plan: Plan) -> None:
        """Executes the steps, each as the engine does."""
        for step in plan.steps:
            command = adapter.run_command(step, self.connection)
            self.start(command.argv, dict(command.env), command.cwd, command.stdin or b"")

    def start(self, argv: tuple[str, ...], env: dict[str, str], cwd: Path, stdin: bytes = b"") -> None:
        """Executes a program that must succeed."""
        env = {"PATH": os.environ["PATH"]} | env | self.connection.environment()
        done = subprocess.run(argv, env=env, input=stdin, cwd=cwd, capture_output=True, check=False)
        assert not done.returncode, (argv, done.stderr)

    def content(self) -> list[object]:
        """Catalog and rows."""
        found: list[object] = list(self.sql.execute(CONTENT))
        tables = self.sql.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public' ORDER BY 1").fetchall()
        for (table,) in tables:
            query = f"SELECT '{table}', t.*::text FROM public.{table} t ORDER BY 2"
            found += self.sql.execute(query.encode()).fetchall()
        return found
