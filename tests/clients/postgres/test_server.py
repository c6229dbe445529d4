from __future__ import annotations

import psycopg
import pytest
from pydantic import ValidationError

from gauss.clients.postgres.connect import connect
from gauss.clients.postgres.server import PORT, PostgresServer, server_of
from gauss.model.errors import ConfigError

HOSTILE = [
    "postgresql://user:pa#ssXYZ@db.example/app",
    "postgresql://user:12#ssXYZ@db.example/app",
    "postgresql://user:pa/ssXYZ@db.example/app",
    "postgresql://user:pa?ssXYZ@db.example/app",
    "postgresql://user:pa@ssXYZ@db.example/app",
    "postgresql://user:paXYZ@db.example:ssXYZ/app",
    "postgresql://user:paXYZ@[db.example/app",
    "postgresql://user:paXYZ@db.example:99999/app",
    "host=db.example port=ssXYZ password=paXYZ",
    "user paXYZ",
]


@pytest.mark.parametrize("dsn", HOSTILE)
def test_error_of_an_unparsable_dsn_does_not_contain_it(dsn: str) -> None:
    with pytest.raises(ValidationError) as caught:
        PostgresServer(dsn=dsn)
    [error] = caught.value.errors(include_input=False)
    assert "percent-encode" in error["msg"]
    assert not any(part in error["msg"] for part in ("XYZ", "pa#", "12", "db.example", "99999"))


@pytest.mark.parametrize(
    ("dsn", "server"),
    [
        ("postgresql://user:pa%23ss%40@db.example/app", ("db.example", PORT)),
        ("postgres://db.example:6000/app?sslmode=require", ("db.example", 6000)),
        ("postgresql://user@one:6001,two:6002/app", ("one", 6001)),
        ("postgresql:///app", ("", PORT)),
        ("postgresql://u:p@[::1]:6003/app", ("::1", 6003)),
        ("host=db.example port=6004 user=u password='a b'", ("db.example", 6004)),
        ("host=one,two port=6005,6006", ("one", 6005)),
        ("service=mine", ("", PORT)),
    ],
)
def test_dsn_is_parsed_to_host_and_port(dsn: str, server: tuple[str, int]) -> None:
    assert server_of(PostgresServer(dsn=dsn)) == server


@pytest.mark.parametrize(
    "dsn", ["postgresql://u:p%zzXYZ@127.0.0.1:1/app", "host=127.0.0.1 port=1 XYZ", "nonsenseXYZ=1"]
)
def test_error_of_a_dsn_that_libpq_refuses_does_not_contain_it(dsn: str) -> None:
    with pytest.raises(psycopg.ProgrammingError):
        psycopg.connect(dsn)
    with pytest.raises(ConfigError) as caught:
        connect(dsn)
    assert "XYZ" not in caught.value.message + caught.value.hint and "percent-encode" in caught.value.hint
