"""`python -m gauss.clients.postgres.owner`: the process that owns an embedded Postgres."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from gauss.clients.endpoint import Endpoint, Identity
from gauss.clients.owner import own
from gauss.clients.postgres.cluster import DATABASE, HOST, USER, Cluster


class EmbeddedPostgres:
    """The cluster in `DIRECTORY/cluster`, created at the first start."""

    def __init__(self) -> None:
        self._cluster: Cluster | None = None

    def start(self, directory: Path, known: Identity) -> Endpoint:
        self._cluster = Cluster(directory / "cluster")
        if not self._cluster.exists:
            self._cluster.create(known.password)
        self._cluster.start(known.port, known.password)
        return Endpoint("postgresql", HOST, known.port, USER, known.password, DATABASE, os.getpid())

    def died(self) -> str:
        return "" if self._cluster is None else self._cluster.died()

    def stop(self) -> None:
        if self._cluster is not None:
            self._cluster.stop()


if __name__ == "__main__":
    sys.exit(own(EmbeddedPostgres(), sys.argv[1:]))
