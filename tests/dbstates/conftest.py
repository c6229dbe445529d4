"""Real servers for all tests of a process: an engine, on btrfs where that can be, and a bare Postgres for steps."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from gauss.clients.dbstates.client import DatabaseStates
from gauss.clients.postgres.cluster import SETTINGS, Cluster
from helpers.dbstates import btrfs, engine, write_scripts
from helpers.postgres_server import running
from helpers.script_folder import ScriptFolder
from helpers.step_server import StepServer


@pytest.fixture(scope="session")
def fast_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder whose file system takes snapshots, if this machine has one."""
    with ExitStack() as stack:
        try:
            yield stack.enter_context(btrfs(tmp_path_factory.mktemp("fs")))
        except pytest.skip.Exception:
            yield tmp_path_factory.mktemp("data")


@pytest.fixture(scope="session")
def client(fast_folder: Path) -> Iterator[DatabaseStates]:
    with engine(fast_folder / "shared") as found:
        yield found


@pytest.fixture
def people_sql(tmp_path: Path) -> Path:
    """A folder with schema.sql and seed.sql."""
    return write_scripts(tmp_path / "scripts")


@pytest.fixture(scope="session")
def step_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StepServer]:
    folder = tmp_path_factory.mktemp("server")
    with running(Cluster(folder / "data", {**SETTINGS, "fsync": "off"})) as started:
        found = StepServer(started.endpoint, folder)
        yield found
        found.sql.close()


@pytest.fixture
def empty_server(step_server: StepServer) -> StepServer:
    step_server.empty()
    return step_server


@pytest.fixture
def scripts(tmp_path: Path) -> ScriptFolder:
    return ScriptFolder(tmp_path)
