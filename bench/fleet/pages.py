"""What pages ask the server with a thousand pipelines listed: the time until the answer is there, in one process."""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path

import httpx

from gauss.api.fleet.app import create_fleet_app
from gauss.clients.embedded import ensure
from gauss.fleet.fleet_store import FleetStore
from gauss.fleet.store.access import Role
from gauss.http.server import ApiServer, listen, url_of

PIPELINES, ASKED = 1_000, 40


def run() -> list[dict[str, object]]:
    with tempfile.TemporaryDirectory() as folder, ensure("postgres", Path(folder) / "postgres") as postgres:
        store = FleetStore(postgres.endpoint.url, Path(folder) / "key")
        made = [store.pipelines.create(f"p{number}", "", "bench").id for number in range(PIPELINES)]
        for pipeline in made[: PIPELINES // 2]:
            store.pipelines.change_state(pipeline, "bench", desired="started", replicas=3)
        store.workers.seen("w", host="h", pid=1, mode="leases", version="1", ttl_ms=600_000)
        store.leases.acquire("w", [(each.pipeline_id, each.slot) for each in store.leases.vacancies()], 600_000)
        token = store.tokens.create("bench", Role.ADMIN, "bench")[1]
        server = ApiServer(listen("127.0.0.1", 0), lambda: create_fleet_app(store))
        server.start()
        path = f"/api/pipelines/{made[0]}"
        try:
            headers = {"Authorization": f"Bearer {token}"}
            with httpx.Client(base_url=url_of(server.listener), headers=headers, timeout=60) as client:
                questions = (
                    ("the list with rates", "GET", "/api/overview", None),
                    ("the pipelines", "GET", "/api/pipelines", None),
                    ("a status", "GET", f"{path}/status", None),
                    ("start with other replicas", "PATCH", f"{path}/state", {"desired": "started", "replicas": 2}),
                    ("the audit log", "GET", "/api/audit?limit=100", None),
                )
                return [_row(client, *question) for question in questions]
        finally:
            server.stop()
            store.close()


def _row(client: httpx.Client, what: str, method: str, path: str, body: object) -> dict[str, object]:
    took = []
    for number in range(ASKED):
        if isinstance(body, dict):
            body = {**body, "replicas": 1 + number % 3}
        began = time.perf_counter()
        client.request(method, path, json=body).raise_for_status()
        took.append(1_000 * (time.perf_counter() - began))
    measured = f"p50 {statistics.median(took):.0f} ms, p90 {sorted(took)[ASKED * 9 // 10]:.0f} ms"
    return {"what": f"{PIPELINES:,} pipelines listed: {what}", "measured": measured, "aim": "< 100 ms"}
