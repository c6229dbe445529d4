"""Tables in servers that a config names: by host and port, over TLS, with a password; and the messages if one is
wrong."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pyarrow as pa
import pytest

from gauss import registry
from gauss.clients.embedded import ensure
from gauss.clients.endpoint import Endpoint
from gauss.clients.postgres.binaries import RunAs, run_as
from gauss.config.check import check
from gauss.config.files import with_absolute_files
from gauss.config.spec import Pipeline, TopicDef
from gauss.contracts.storage import StorageSpec
from gauss.contracts.table import RowBlock, RowGroup
from gauss.model.errors import ConfigError, Unavailable
from gauss.model.paths import DataDir
from gauss.stream.tables import table_topic
from gauss.tables.mapped_table import MappedTable
from helpers.certificates import Authority
from helpers.proxy import Proxy
from helpers.run import free_port
from helpers.waiting import wait_until

SYSTEMS = ["clickhouse", "postgres"]


class Servers:
    """Both embedded servers, each behind a proxy with TLS."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authority = Authority(folder)
        self.stranger = Authority(folder, "stranger")
        certificate = self.authority.issue("server")
        self.servers = {system: ensure(system, folder / system) for system in SYSTEMS}
        self.proxies = {
            system: Proxy(server.endpoint.port, certificate=certificate, postgres=system == "postgres")
            for system, server in self.servers.items()
        }

    def endpoint(self, system: str) -> Endpoint:
        return self.servers[system].endpoint

    def config(self, system: str, **changes: Any) -> dict[str, Any]:
        endpoint = self.endpoint(system)
        made: dict[str, Any] = {"host": "localhost", "port": self.proxies[system].port, "ca_file": "ca.pem"}
        made |= {"user": endpoint.user, "password": endpoint.password}
        if system == "clickhouse":
            made["secure"] = True
        return {key: value for key, value in (made | changes).items() if value is not None}

    def topic(self, system: str, **changes: Any) -> MappedTable:
        """A table of blobs; the files of its config are in the same folder."""
        topic = TopicDef(name="secured", storage=system, storage_config=self.config(system, **changes))
        pipeline = with_absolute_files(Pipeline(topics=[topic]), self.folder)
        return table_topic(pipeline, "secured", self.folder, DataDir(self.folder / "none"))

    def close(self) -> None:
        for proxy in self.proxies.values():
            proxy.close()
        for server in self.servers.values():
            server.stop()


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    made = Servers(tmp_path_factory.mktemp("servers"))
    yield made
    made.close()


def write(topic: MappedTable, start: int) -> None:
    """Writes three records."""
    topic.store.open(topic.target, topic.store.prepare(topic.target))
    rows = pa.table({"ts_ms": pa.array([1, 2, 3]), "payload": pa.array([b"a", b"b", b"c"], pa.binary())})
    group = RowGroup(np.arange(start, start + 3), rows)
    topic.store.insert(RowBlock("p", 1, 0, 7, start, start + 3, (group,)), 0.1)
    topic.store.close()


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_server_is_reached_by_host_and_port_over_tls(servers: Servers, system: str) -> None:
    write(servers.topic(system), 0)
    plain = servers.topic(system, port=servers.endpoint(system).port, ca_file=None, secure=None)
    write(plain, 3)
    found = plain.store.differences(plain.target)
    assert found == []


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"password": "wr0ng-pass"}, ("Authentication failed", "password authentication failed")),
        ({"ca_file": "stranger.pem"}, ("not signed by a known authority", "certificate verify failed")),
        ({"host": "127.0.0.2"}, ("not signed by a known authority", "does not match host name")),
        ({"port": -1}, ("does not speak TLS", "does not support SSL")),
    ],
)
def test_what_is_wrong_with_an_address_is_said_without_its_secret(
    servers: Servers, system: str, changes: dict[str, Any], told: tuple[str, str]
) -> None:
    endpoint = servers.endpoint(system)
    if changes.get("port") == -1:
        changes = {"port": endpoint.port}  # the server itself, without TLS
    if changes.get("host") == "127.0.0.2":
        changes = {**changes, "ca_file": "ca.pem"}
    with pytest.raises(ConfigError) as caught:
        topic = servers.topic(system, **changes)
        topic.store.prepare(topic.target)
    said = f"{caught.value.message} {caught.value.hint}"
    assert told[SYSTEMS.index(system)] in said
    assert endpoint.password not in said
    assert "wr0ng-pass" not in said


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_server_that_is_away_is_waited_for(servers: Servers, system: str) -> None:
    with pytest.raises(Unavailable) as caught:
        topic = servers.topic(system, port=free_port())
        topic.store.prepare(topic.target)
    assert "does not answer" in caught.value.message
    assert servers.endpoint(system).password not in str(caught.value)


@pytest.mark.parametrize("system", SYSTEMS)
def test_an_authority_that_is_not_there_is_a_fault_of_the_config(tmp_path: Path, system: str) -> None:
    file = tmp_path / "gauss.toml"
    file.write_text(
        f'[[topics]]\nname = "t"\nstorage = "{system}"\nstorage_config = {{ host = "h", ca_file = "no.pem" }}\n'
    )
    assert any('"ca_file" names a file that does not exist' in str(fault) for fault in check(file).faults)


def test_a_relative_authority_starts_at_the_config(tmp_path: Path) -> None:
    topics = [
        TopicDef(name=system, storage=system, storage_config={"host": "h", "ca_file": "ca.pem"}) for system in SYSTEMS
    ]
    for topic in with_absolute_files(Pipeline(topics=topics), tmp_path).topics:
        config: Any = registry.spec(StorageSpec, topic.storage).validate(topic.storage_config)
        assert config.ca_file == tmp_path / "ca.pem"


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that the server's user can read; pytest's own folders are private."""
    with tempfile.TemporaryDirectory() as made:
        Path(made).chmod(0o755)
        yield Path(made)


DEBIAN = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))


@pytest.mark.skipif(not DEBIAN, reason="the embedded Postgres is built without TLS, and there is no other here")
def test_a_postgres_with_tls_of_its_own_takes_rows(open_folder: Path) -> None:
    programs, user, port, tmp_path = DEBIAN[-1].parent, run_as(), free_port(), open_folder
    cluster, secret = tmp_path / "cluster", tmp_path / "secret"
    cluster.mkdir()
    secret.write_text("s3cret-word\n")
    certificate, key = Authority(tmp_path).issue("server")
    for path in (cluster, secret, certificate, key):
        user.give(path)
    key.chmod(0o600)
    with _postgres(programs, cluster, user, port, ["-c", "ssl=on", "-c", f"ssl_cert_file={certificate}",
                                                  "-c", f"ssl_key_file={key}"]) as process:  # fmt: skip
        config = {"host": "localhost", "port": port, "password": "s3cret-word", "ca_file": str(tmp_path / "ca.pem")}
        topic = TopicDef(name="t", storage="postgres", storage_config=config)
        found = table_topic(Pipeline(topics=[topic]), "t", tmp_path, DataDir(tmp_path / "none"))
        wait_until(lambda: process.poll() is not None or _answers(port))
        assert process.poll() is None
        write(found, 0)
        url = f"postgresql://postgres:s3cret-word@localhost:{port}/postgres?sslmode=require"
        with psycopg.connect(url) as connection:
            row = connection.execute("SELECT count(*), bool_and(ssl) FROM t, pg_stat_ssl WHERE pid = pg_backend_pid()")
            assert row.fetchone() == (3, True)


def _postgres(
    programs: Path, cluster: Path, user: RunAs, port: int, settings: list[str]
) -> subprocess.Popen[bytes]:  # fmt: skip
    options: dict[str, Any] = {"cwd": "/", "stdin": subprocess.DEVNULL, **user.options()}
    secret = cluster.with_name("secret")
    initdb = [str(programs / "initdb"), "-D", str(cluster), "-U", "postgres", "-A", "scram-sha-256"]
    subprocess.run([*initdb, f"--pwfile={secret}", "--no-sync"], check=True, stdout=subprocess.DEVNULL, **options)
    command = [str(programs / "postgres"), "-D", str(cluster), "-p", str(port), "-k", str(cluster), *settings]
    return _Ended([*command, "-c", "listen_addresses=localhost"], **options)


class _Ended(subprocess.Popen[bytes]):
    """Stops at the end of its block."""

    def __exit__(self, *_: Any) -> None:
        self.send_signal(2)
        self.wait(60)


def _answers(port: int) -> bool:
    try:
        psycopg.connect(f"postgresql://postgres:s3cret-word@localhost:{port}/postgres").close()
    except psycopg.OperationalError:
        return False
    return True
