from __future__ import annotations

from collections.abc import Iterator

import pytest

from gauss.clients.endpoint import Endpoint
from gauss.clients.postgres.connect import Connection, connect
from gauss.clients.postgres.ledger import prepare


@pytest.fixture
def connection(postgres: Endpoint) -> Iterator[Connection]:
    with connect(postgres, autocommit=True) as found:
        prepare(found)
        yield found
