"""What every runtime does: processes and containers."""

from __future__ import annotations

import os
import socket
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import psycopg
import pytest

from gauss.dbstates.planning.plan import Command
from gauss.dbstates.prepare.control import JobControl
from gauss.dbstates.prepare.output import StepOutput
from gauss.dbstates.prepare.tool import run_tool, write_passfile
from gauss.dbstates.runtimes import container, process, waiting
from gauss.dbstates.runtimes.container import ContainerRuntime
from gauss.dbstates.runtimes.process import ProcessRuntime
from gauss.dbstates.runtimes.runtime import Build, Launch, Runtime, Server
from gauss.dbstates.settings import ContainerSettings
from gauss.dbstates.statefs.files import CopiedFiles
from gauss.dbstates.store.metadata import Metadata
from gauss.model.errors import StorageError, Unavailable
from gauss.process.ports import free_port
from helpers.containers import use_podman
from helpers.waiting import wait_until

PASSWORD = "secret-of-the-instance"


class World:
    """A runtime, a build and a sealed base."""

    def __init__(self, runtime: Runtime, build: Build, folder: Path) -> None:
        self.runtime, self.build, self.folder = runtime, build, folder
        self.base = folder / "base"
        CopiedFiles().create(self.base)
        runtime.create_base(build, self.base)
        self.started: list[Server] = []

    def start(self, **settings: str) -> tuple[Launch, Server]:
        instance = uuid.uuid4().hex
        data = self.folder / instance
        CopiedFiles().clone(self.base, data)
        launch = Launch(instance, data, self.folder / f"{instance}.log", settings, PASSWORD)
        server = self.runtime.start(self.build, launch)
        self.started.append(server)
        return launch, server

    def sql(self, server: Server, query: str, password: str = PASSWORD) -> object:
        dsn = f"postgresql://postgres:{password}@127.0.0.1:{server.port}/postgres?connect_timeout=10"
        with psycopg.connect(dsn, autocommit=True) as connection:
            found = connection.execute(query.encode())
            row = found.fetchone() if found.description else None
            return row[0] if row else None


@pytest.fixture(scope="module")
def kit(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], World]]:
    made: dict[str, World] = {}
    with ExitStack() as stack, pytest.MonkeyPatch.context() as patch:

        def world(kind: str) -> World:
            if kind not in made:
                folder = tmp_path_factory.mktemp(kind)
                metadata = Metadata(folder / "metadata.db")
                stack.callback(metadata.close)
                store = uuid.uuid4().hex
                if kind == "process":
                    runtime: Runtime = ProcessRuntime(metadata, store)
                    made[kind] = World(runtime, runtime.resolve(""), folder)
                else:
                    image = use_podman(folder, patch)
                    runtime = ContainerRuntime(metadata, store, ContainerSettings(memory="", cpus=0))
                    made[kind] = World(runtime, runtime.resolve(image), folder)
                stack.callback(lambda: made[kind].runtime.end_leftovers(set()))
                stack.callback(lambda: made[kind].runtime.forget_others(set()))
            return made[kind]

        yield world


@pytest.fixture(params=["process", "container"])
def world(request: pytest.FixtureRequest, kit: Callable[[str], World]) -> World:
    return kit(request.param)


def test_a_started_server_accepts_its_password_only(world: World) -> None:
    _, server = world.start()
    assert world.sql(server, "SELECT 42") == 42
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        world.sql(server, "SELECT 1", password="wrong")


def test_the_build_says_the_exact_version(world: World) -> None:
    _, server = world.start()
    assert str(world.sql(server, "SHOW server_version")).split()[0] == world.build.version
    assert world.build.extensions["plpgsql"] == "1.0"
    assert world.runtime.has_digest(world.build.image)


def test_settings_reach_the_server(world: World) -> None:
    _, server = world.start(work_mem="7MB")
    assert world.sql(server, "SHOW work_mem") == "7MB"


def test_a_server_listens_on_loopback_only(world: World) -> None:
    _, server = world.start()
    assert world.sql(server, "SHOW listen_addresses") == "127.0.0.1"


def test_a_stopped_server_resumes_at_its_address(world: World) -> None:
    launch, server = world.start()
    world.sql(server, "CREATE TABLE kept AS SELECT 7 AS n")
    server.stop()
    assert server.died()
    assert not (launch.data / "postmaster.pid").exists()
    again = world.runtime.resume(world.build, launch, server)
    assert again.port == server.port
    if world.runtime.name == "container":  # which has outlived the stop
        assert again.runtime_id == server.runtime_id
    assert world.sql(again, "SELECT n FROM kept") == 7


def test_a_killed_server_is_dead(world: World) -> None:
    _, server = world.start()
    server.kill()
    assert server.died()
    server.kill()


def test_a_running_server_is_found_again(world: World) -> None:
    launch, server = world.start()
    found = world.runtime.attach(launch.instance, server.runtime_id, server.port)
    assert found is not None
    assert found.died() == ""
    assert world.sql(found, "SELECT 1") == 1
    found.kill()
    assert world.runtime.attach(launch.instance, server.runtime_id, server.port) is None


def test_leftovers_end_and_kept_servers_stay(world: World) -> None:
    _, kept = world.start()
    _, left = world.start()
    assert world.runtime.end_leftovers({kept.runtime_id})
    wait_until(left.died)
    assert world.sql(kept, "SELECT 1") == 1


def test_a_tool_runs_with_its_files(world: World, tmp_path: Path) -> None:
    _, server = world.start()
    script = tmp_path / "a script.sql"
    script.write_text("CREATE TABLE made AS SELECT 5 AS n;\n\\echo done\n")
    connection = world.runtime.connection(server, write_passfile(tmp_path / "pass", PASSWORD), network=False)
    env = {"PATH": os.environ["PATH"], "PGHOST": connection.host, "PGPORT": str(connection.port)}
    env |= {"PGUSER": "postgres", "PGDATABASE": "postgres", "PGPASSFILE": str(tmp_path / "pass")}
    command = Command(("psql", "-X", "-f", str(script)), env, None, tmp_path)
    lines: list[str] = []
    call = world.runtime.tool(world.build, server, command, [script])
    assert run_tool(call, JobControl(), StepOutput(lambda _, text: lines.append(text)).read) == 0, lines
    assert "done" in lines
    assert world.sql(server, "SELECT n FROM made") == 5


def test_a_port_that_somebody_has_taken_is_left_to_them(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        found = [taken.getsockname()[1], free_port()]
        module = container if world.runtime.name == "container" else process
        monkeypatch.setattr(module, "free_port", lambda **_: found.pop(0))
        _, server = world.start()
        assert server.port != taken.getsockname()[1]
        assert found == []
        assert world.sql(server, "SELECT 1") == 1


def test_a_server_that_is_not_ready_in_time_is_ended(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.runtime.end_leftovers(set())
    monkeypatch.setattr(waiting, "START_SECONDS", -1.0)
    with pytest.raises(Unavailable, match="did not accept connections"):
        world.start()
    assert world.runtime.end_leftovers(set()) == []


def test_a_server_that_can_not_start_says_why(world: World) -> None:
    with pytest.raises(StorageError, match="no_such_setting"):
        world.start(no_such_setting="1")
