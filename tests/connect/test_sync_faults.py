"""Permissions, columns, tables and replication slots that are removed while a sync runs."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
import pytest

from gauss.clients.embedded import EmbeddedServer
from gauss.clients.postgres.connect import Connection
from gauss.connect.conformance.datasets import plain
from gauss.connect.conformance.generator import NAME, write_rows
from gauss.connect.sync import SyncResult
from gauss.contracts.connector.errors import ErrorCategory
from helpers.people import same, succeeded
from helpers.waiting import wait_until

pytestmark = pytest.mark.system
Event = dict[str, Any]
USER = "limited"


@pytest.fixture
def limited(server: EmbeddedServer, connection: Connection) -> Any:
    """The address for a user who may make tables."""
    connection.execute(f"DROP ROLE IF EXISTS {USER}; CREATE ROLE {USER} LOGIN PASSWORD 'pw'".encode())
    connection.execute(f"GRANT CREATE ON DATABASE postgres TO {USER}; GRANT SELECT ON people TO {USER}".encode())
    endpoint = server.endpoint
    yield f"postgresql://{USER}:pw@{endpoint.host}:{endpoint.port}/{endpoint.database}"
    connection.execute(f"DROP OWNED BY {USER} CASCADE; DROP ROLE {USER}".encode())


def once(wanted: str, work: Callable[[], object]) -> tuple[Callable[[Event], None], list[Event]]:
    """An observer of a sync's events that does something at the first one of a kind."""
    seen: list[Event] = []

    def emit(event: Event) -> None:
        seen.append(event)
        if [each["event"] for each in seen].count(wanted) == 1 and event["event"] == wanted:
            work()

    return emit, seen


def test_revoked_write_permission_fails_the_run_and_the_next_one_completes_it(
    make: Any, connection: Connection, limited: str, tmp_path: Path
) -> None:
    write_rows(plain(300), tmp_path / "rows.arrow")
    more = {
        "source": {"connector": NAME, "files": {"rows": str(tmp_path / "rows.arrow")}, "batch_rows": 50},
        "destination": {"connector": "postgres", "dsn": limited, "schema": "landing"},
        "streams": [{"name": "rows", "mode": "incremental", "cursor": "id"}],
        "limits": {"max_inflight_batches": 1},
    }
    emit, events = once("checkpoint", lambda: connection.execute(f"REVOKE INSERT ON landing.rows FROM {USER}".encode()))
    result: SyncResult = make({}, emit=emit, **more).run()
    assert result.status == "failed" and result.error is not None
    assert (result.error.category, result.error.retryable) == (ErrorCategory.PERMISSION, False)
    assert "GRANT" in result.error.hint and "pw@" not in str(result.error)
    assert "retry" not in {each["event"] for each in events}
    ids = "SELECT id FROM landing.rows ORDER BY id"
    before = [row[0] for row in connection.execute(ids.encode())]
    assert before == list(range(1, len(before) + 1)) and len(before) < 300
    connection.execute(f"GRANT INSERT ON landing.rows TO {USER}".encode())
    succeeded(make({}, **more).run())
    assert [row[0] for row in connection.execute(ids.encode())] == list(range(1, 301))


ARROW = {"transform": {"program": "select(.id > 0)"}}
"""Rows go through Arrow, not as they come from COPY."""
STRICT = {"policies": {"schema_evolution": {"removed_column": "fail"}}}


class Loss(NamedTuple):
    """A change of a table after the plan, and the expected error; none if the stream is planned again."""

    statement: str
    category: ErrorCategory | None = None
    repair: str = "SELECT 1"
    strict: bool = False


LOSSES = {
    "permission": Loss(
        f"REVOKE SELECT ON people FROM {USER}", ErrorCategory.PERMISSION, f"GRANT SELECT ON people TO {USER}"
    ),
    "column that must not go": Loss("ALTER TABLE people DROP COLUMN born", ErrorCategory.SCHEMA, strict=True),
    "column that is not null": Loss("ALTER TABLE people DROP COLUMN name"),
    "new column": Loss("ALTER TABLE people ADD COLUMN more text DEFAULT 'x'"),
    "table": Loss("ALTER TABLE people RENAME TO gone", ErrorCategory.CONFIG, "ALTER TABLE gone RENAME TO people"),
}


@pytest.mark.parametrize("lane", [{}, ARROW], ids=["copy", "arrow"])
@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
def test_source_table_that_changes_after_the_plan_is_followed_or_a_typed_error(
    make: Any, connection: Connection, limited: str, lane: dict[str, Any], loss: Loss
) -> None:
    connection.execute("DROP TABLE IF EXISTS first; CREATE TABLE first (id int)")
    connection.execute(f"GRANT SELECT ON first TO {USER}".encode())
    people = {"name": "public.people", "mode": "incremental", "cursor": "id"}
    more = {
        "streams": [{"name": "public.first"}, {**people, **lane}],
        "source": {"connector": "postgres", "dsn": limited},
    }
    emit, _ = once("stream", lambda: connection.execute(loss.statement.encode()))  # both are planned by then
    result: SyncResult = make({}, emit=emit, **more, **(STRICT if loss.strict else {})).run()
    expected = "succeeded" if loss.category is None else "failed"
    assert [each.status for each in result.streams] == ["succeeded", expected], result.streams
    assert (result.error and result.error.category) is loss.category, result.error
    connection.execute(loss.repair.encode())
    succeeded(make({}, **more).run())
    kept = connection.execute("SELECT * FROM people LIMIT 0")
    assert kept.description is not None
    columns = ", ".join(each.name for each in kept.description)
    assert same(connection, f"(SELECT {columns} FROM landing.people) AS landed")


def test_slot_dropped_during_a_follow_sync_ends_it_with_an_error(make: Any, connection: Connection) -> None:
    stream = {"mode": "cdc", "write": "upsert", "key": ["id"]}
    landed = threading.Event()
    emit, _ = once("checkpoint", landed.set)
    sync, results = make(stream, emit=emit, follow=True, max_attempts=2), list[SyncResult]()
    running = threading.Thread(target=lambda: results.append(sync.run()), daemon=True)
    running.start()
    assert landed.wait(60)

    def dropped() -> bool:
        try:
            connection.execute("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots")
        except psycopg.errors.ObjectInUse:  # the sync looks at it right now
            return False
        return True

    wait_until(dropped)
    connection.execute("UPDATE people SET name = 'changed' WHERE id = 1")
    running.join(60)
    assert results, "the sync goes on without its slot"
    assert results[0].status == "failed" and results[0].error is not None
    assert results[0].error.code == "SLOT_GONE" and "state reset" in results[0].error.hint
    assert connection.execute("SELECT count(*) FROM pg_replication_slots").fetchone() == (0,)
