"""A plugin of pytest: the fixture `gauss_db` is a Postgres for one test, cloned from a prepared state."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

if TYPE_CHECKING:
    from gauss.clients.dbstates.client import DatabaseStates
    from gauss.clients.dbstates.prepared import Holder, Prepared
    from gauss.model.errors import GaussError

MARK = "gauss_db"


class Database:
    """A database of one test."""

    def __init__(self, client: DatabaseStates, made: Prepared) -> None:
        self._client, self.made = client, made
        self.dsn = made.dsn

    def reset(self) -> None:
        """Gives it the content of its state again. Connections end; the address stays."""
        self._client.post("instances", self.made.instance, "reset")


class Databases:
    """Those of one run of pytest: none outlives it, however it ends."""

    def __init__(self, config: pytest.Config, holder: Holder) -> None:
        self._config, self._holder = config, holder
        self._data_dir = config.rootpath / str(config.getini("gauss_db_data_dir"))
        self._removing = ThreadPoolExecutor(1, thread_name_prefix="gauss-db")

    def make(self, marker: pytest.Mark | None) -> Database:
        from gauss.clients.dbstates.client import start
        from gauss.clients.dbstates.prepared import instance, request_of
        from gauss.model.errors import GaussError

        args, options = self._asked(marker)
        try:
            client = start(self._data_dir)
            return Database(client, instance(client, request_of(args=args, folder=self._config.rootpath, **options),
                                             self._holder))  # fmt: skip
        except GaussError as error:
            _fail(error)

    def drop(self, database: Database) -> None:
        """Removes a database, beside the next test."""
        from gauss.clients.dbstates.client import start
        from gauss.clients.dbstates.prepared import remove

        self._removing.submit(lambda: remove(start(self._data_dir), database.made))

    def close(self) -> None:
        self._removing.shutdown(wait=True)
        self._holder.close()

    def _asked(self, marker: pytest.Mark | None) -> tuple[list[str], dict[str, Any]]:
        """Arguments of scripts, kind and image: those of the test's mark, or the settings of pytest."""
        given = self._config.getini
        options = {"kind": str(given("gauss_db_kind")), "image": str(given("gauss_db_image"))}
        args = [str(each) for each in given("gauss_db")]
        if marker is not None:
            args = [str(each) for each in marker.args] or args
            if unknown := marker.kwargs.keys() - options.keys():
                pytest.fail(f"gauss_db has no option {', '.join(sorted(unknown))}: expected kind or image", False)
            options |= marker.kwargs
        if not args:
            pytest.fail(
                'gauss_db: no scripts are named: write gauss_db = "-f schema.sql" into the settings of pytest, or mark '
                'the test with @pytest.mark.gauss_db("-f", "schema.sql")',
                False,
            )
        return args, options


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini("gauss_db", "scripts of the fixture gauss_db, as for gauss db prepare: -f schema.sql", type="args")
    parser.addini("gauss_db_kind", "psql, migrations, alembic or liquibase", default="psql")
    parser.addini("gauss_db_image", "another Postgres: the folder of its programs, or an image", default="")
    parser.addini("gauss_db_data_dir", "the data directory whose engine prepares databases", default=".gauss")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", f"{MARK}(*args, kind, image): scripts of the databases of these tests")


@pytest.fixture(scope="session")
def gauss_databases(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Databases]:
    from gauss.clients.dbstates.prepared import Holder

    found = Databases(pytestconfig, Holder(Path(tmp_path_factory.mktemp("gauss-db")) / "lock"))
    yield found
    found.close()


@pytest.fixture
def gauss_db(request: pytest.FixtureRequest, gauss_databases: Databases) -> Iterator[Database]:
    """A Postgres of the test's own, with the content that scripts have prepared; `dsn` is its address."""
    database = gauss_databases.make(request.node.get_closest_marker(MARK))
    yield database
    gauss_databases.drop(database)


def _fail(error: GaussError) -> NoReturn:
    pytest.fail(f"gauss_db: {error.message}" + (f" ({error.hint})" if error.hint else ""), False)
