"""A store that stops answering: its users get an error in time, and go on when it answers again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
import sqlalchemy as sa

from gauss.api.fleet.app import create_fleet_app
from gauss.clients.database import Database
from gauss.fleet.fleet_store import FleetStore
from gauss.fleet.store.time_limit import limit_transactions
from gauss.http.server import ApiServer, listen, url_of
from gauss.model.errors import Unavailable
from helpers.proxy import Proxy


@pytest.fixture
def proxied(postgres_url: str) -> Iterator[tuple[Proxy, Database]]:
    parts = urlsplit(postgres_url)
    proxy = Proxy(parts.port or 0, host="127.0.0.1")
    url = postgres_url.replace(f":{parts.port}/", f":{proxy.port}/")
    database = Database(url, name="store", option="--store", pool_pre_ping=False)
    limit_transactions(database.engine, 1.0)
    yield proxy, database
    proxy.close()
    database.close()


@pytest.mark.system
def test_a_transaction_without_an_answer_ends_in_time_and_the_next_one_succeeds(
    proxied: tuple[Proxy, Database],
) -> None:
    proxy, database = proxied
    with database.transaction() as connection:
        connection.execute(sa.text("SELECT 1"))
    proxy.is_mute = True
    with pytest.raises(Unavailable, match="does not answer"), database.transaction() as connection:
        connection.execute(sa.text("SELECT 2"))
    proxy.is_mute = False
    with database.transaction() as connection:
        assert connection.execute(sa.text("SELECT 3")).scalar_one() == 3


@pytest.mark.system
def test_a_server_is_not_ready_when_its_store_has_gone_away(postgres_url: str, key_path: Path) -> None:
    store = FleetStore(postgres_url, key_path)
    server = ApiServer(listen("127.0.0.1", 0), lambda: create_fleet_app(store))
    server.start()
    try:
        ready = f"{url_of(server.listener)}/readyz"
        assert httpx.get(ready).status_code == 200
        with sa.create_engine(postgres_url.replace("postgresql:", "postgresql+psycopg:")).connect() as admin:
            mine = "datname = current_database() AND application_name = 'gauss fleet'"
            ended = f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {mine}"
            assert admin.execute(sa.text(ended)).all()
        found = httpx.get(ready)
        assert (found.status_code, found.json()) == (503, {"status": "down"})
        assert httpx.get(ready).status_code == 200  # a new connection is answered
    finally:
        server.stop()
        store.close()
