"""A Postgres server of a cluster that a test has chosen."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace

from gauss.clients.endpoint import Endpoint
from gauss.clients.postgres.cluster import DATABASE, HOST, USER, Cluster
from gauss.process.ports import free_port

PASSWORD = "secret"


@contextmanager
def running(cluster: Cluster) -> Iterator[SimpleNamespace]:
    """Creates a cluster and starts its server; yields an object with its `endpoint`."""
    cluster.create(PASSWORD)
    port = free_port()
    cluster.start(port, PASSWORD)
    try:
        yield SimpleNamespace(endpoint=Endpoint("postgresql", HOST, port, USER, PASSWORD, DATABASE))
    finally:
        cluster.stop()
