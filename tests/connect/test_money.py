"""Amounts of money keep their value between servers whose `lc_monetary` differs."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gauss.clients.postgres.cluster import Cluster
from gauss.clients.postgres.connect import Connection, connect
from helpers.cdc_people import UPSERT, drop_replication
from helpers.people import succeeded
from helpers.postgres_server import PASSWORD, running

pytestmark = pytest.mark.system
GERMAN, JAPANESE = "de_DE", "ja_JP"
"""One writes 1234.50 as 1.234,50, the other has no digits behind the point."""


@pytest.fixture(scope="module")
def locales() -> Iterator[Path]:
    """A folder with the locales, which the user that runs Postgres can read."""
    folder = Path(tempfile.mkdtemp(prefix="gauss-locales-"))
    folder.chmod(0o755)
    compiler = shutil.which("localedef") or "false"
    try:
        for name in (GERMAN, JAPANESE):
            command = [compiler, "-i", name, "-f", "UTF-8", f"./{name}.UTF-8"]
            if subprocess.run(command, cwd=folder, check=False).returncode:
                pytest.skip("this machine can't compile locales")
        yield folder
    finally:
        shutil.rmtree(folder)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, locales: Path) -> Iterator[SimpleNamespace]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LOCPATH", str(locales))
        with running(Cluster(tmp_path_factory.mktemp("postgres") / "cluster")) as made:
            yield made


@pytest.fixture
def connection(server: SimpleNamespace) -> Iterator[Connection]:
    with connect(server.endpoint, autocommit=True) as made:
        made.execute("DROP SCHEMA IF EXISTS landing CASCADE; DROP TABLE IF EXISTS people")
        made.execute("CREATE TABLE people (id bigint PRIMARY KEY, worth money, more money[])")
        made.execute("INSERT INTO people VALUES (1, 1234.5, ARRAY[1234.5, NULL, -0.5]), (2, -7, '{}'), (3, NULL, NULL)")
        yield made
        drop_replication(made)


def landed(make: Any, connection: Connection, stream: dict[str, Any], locale: str, load: str) -> list[tuple[Any, ...]]:
    """The amounts at a destination with another locale."""
    side = {"connector": "postgres", "dsn": f"{connection.info.dsn} password={PASSWORD}", "schema": "landing"}
    side |= {"load": load, "dsn": f"{side['dsn']} options='-c lc_monetary={locale}.UTF-8'"}
    succeeded(make(stream, destination=side).run())
    connection.execute(f"SET lc_monetary = '{locale}.UTF-8'".encode())
    return connection.execute("SELECT worth::numeric, more::numeric[] FROM landing.people ORDER BY id").fetchall()


@pytest.mark.parametrize("load", ["copy_binary", "copy", "insert"])
def test_amounts_are_equal_in_a_locale_with_a_decimal_comma(make: Any, connection: Connection, load: str) -> None:
    assert landed(make, connection, UPSERT, GERMAN, load) == [
        (Decimal("1234.50"), [Decimal("1234.50"), None, Decimal("-0.50")]),
        (Decimal("-7.00"), []),
        (None, None),
    ]


def test_amounts_are_rounded_in_a_locale_without_decimals(make: Any, connection: Connection) -> None:
    assert [worth for worth, _ in landed(make, connection, {}, JAPANESE, "copy_binary")] == [1235, -7, None]
