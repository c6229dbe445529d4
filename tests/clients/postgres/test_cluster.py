"""Postgres clusters without an owner process."""

from __future__ import annotations

import socket
from pathlib import Path

import psycopg
import pytest

from gauss.clients.postgres.cluster import SETTINGS, Cluster
from gauss.model.errors import StorageError
from gauss.process.ports import free_port

pytestmark = pytest.mark.fault


def ask(port: int, query: str) -> object:
    with psycopg.connect(f"postgresql://postgres:secret@127.0.0.1:{port}/postgres") as connection:
        row = connection.execute(query.encode()).fetchone()
        return row[0] if row else None


def test_clusters_of_one_process_have_their_own_data_and_settings(directory: Path) -> None:
    directory.mkdir(exist_ok=True)
    clusters = {
        name: Cluster(directory / name, {**SETTINGS, "work_mem": size}) for name, size in (("a", "5MB"), ("b", "6MB"))
    }
    ports = {name: free_port() for name in clusters}
    try:
        for name, cluster in clusters.items():
            assert not cluster.exists
            cluster.create("secret")
            cluster.start(ports[name], "secret")
            assert cluster.exists and cluster.died() == ""
        assert [ask(ports[name], "SHOW work_mem") for name in clusters] == ["5MB", "6MB"]
        clusters["a"].stop()
        assert clusters["a"].died() == "Postgres ended with exit code 0"
        assert ask(ports["b"], "SELECT 1") == 1
    finally:
        for cluster in clusters.values():
            cluster.stop()


def test_start_on_a_port_in_use_is_an_error_that_the_server_ended(directory: Path) -> None:
    directory.mkdir(exist_ok=True)
    cluster = Cluster(directory / "a")
    cluster.create("secret")
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(StorageError, match="ended with exit code 1"):
        cluster.start(taken.getsockname()[1], "secret")
