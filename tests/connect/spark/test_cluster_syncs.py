"""Syncs on a standalone cluster: a real master and worker, and an executor that is killed."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from gauss.clients.embedded import EmbeddedServer
from gauss.clients.postgres.connect import Connection
from helpers import people
from helpers.cluster import CONF, executors, standalone_cluster
from helpers.people import same
from helpers.sync_kills import SLOW_SOURCE
from helpers.waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.fault, pytest.mark.timeout(600)]

RUN = """
import json, sys
from pathlib import Path
from gauss import registry
from gauss.config.spec import SparkSection
from gauss.config.syncs import SyncDef
from gauss.connect.sync import Sync

given, here = json.loads(sys.argv[1]), Path(sys.argv[2])
registry.look_in(here)
sync, spark = SyncDef.model_validate(given["sync"]), SparkSection.model_validate(given["spark"])
result = Sync(sync, here, here / ".gauss", spark=spark).run()
print(result.status, result.error)
"""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[tuple[str, psutil.Process]]:
    with standalone_cluster(tmp_path) as made:
        yield made


def test_killed_executor_loses_no_rows(
    cluster: tuple[str, psutil.Process], server: EmbeddedServer, connection: Connection, tmp_path: Path
) -> None:
    master, worker = cluster
    people.create(connection, 20_000)
    (tmp_path / "sources.py").write_text(SLOW_SOURCE.format(seconds=0.1))
    side = {"dsn": server.endpoint.url}
    sync = {
        "name": "people",
        "runs_on": "spark",
        "source": {**side, "connector": "sources:Slow", "partition_bytes": "256KiB"},
        "destination": {**side, "connector": "postgres", "schema": "landing"},
        "streams": [{"name": "public.people"}],
        "limits": {"max_batch_bytes": "32KiB"},
    }
    given = json.dumps({"sync": sync, "spark": {"master": master, "conf": CONF}})
    with subprocess.Popen(
        [sys.executable, "-c", RUN, given, str(tmp_path)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        found: list[psutil.Process] = []

        def reading() -> bool:
            assert process.poll() is None, process.communicate()[0]
            pids = {int(path.suffix[1:]) for path in tmp_path.glob("reading.*")}
            found[:] = [
                each for each in executors(worker) if pids & {child.pid for child in each.children(recursive=True)}
            ]
            return bool(found)

        wait_until(reading, 200)
        found[0].kill()
        told = process.communicate(timeout=200)[0]
    assert told.splitlines()[-1].startswith("succeeded"), told
    assert same(connection)
