"""A store that stops answering: its users get an error in time, and go on when it answers again."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
import sqlalchemy as sa

from gauss.clients.database import Database
from gauss.fleet.store.time_limit import limit_transactions
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
