"""A process of a run dies while the machine has no disk space or no file descriptors."""

from __future__ import annotations

import contextlib
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from helpers.disks import fill, small_file_system
from helpers.feeds import Collector, send
from helpers.pipelines import example_1
from helpers.run import GAUSS, Run, free_port
from helpers.waiting import wait_until

Make = Callable[[str], Run]
ENGINE = "gauss.stream.engine"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 16 MiB."""
    with small_file_system(tmp_path / "small", "16m") as folder:
        yield folder


@pytest.mark.fault
def test_engine_killed_on_a_full_disk_is_back_once_there_is_space(gauss: Make, small_disk: Path) -> None:
    feed, out = free_port(), free_port()
    run = gauss("[engine]\nmin_free_bytes = 0\n" + example_1(feed, out))
    run.data_dir = small_disk / ".gauss"
    run.start()
    fill(small_disk / "filler")
    run.kill(ENGINE)

    def told() -> bool:
        health = run.api("/api/health")
        return health["status"] == "degraded" and "No space left" in " ".join(health["reasons"])

    wait_until(told, what="health says why the engine is not there")
    (small_disk / "filler").unlink()
    run.wait_ready()
    collector = Collector(out)
    send(feed, b"after\n")
    assert collector.wait(1)[-1] == b"after"
    collector.close()
    assert run.stop() == 0


@pytest.mark.fault
def test_engine_killed_while_idle_clients_take_all_descriptors_they_get_is_back(gauss: Make) -> None:
    feed, out = free_port(), free_port()
    run = gauss(example_1(feed, out))
    with run.output.open("ab") as output:
        run.process = subprocess.Popen(
            ["sh", "-c", 'ulimit -n 256; exec "$@"', "sh", GAUSS, "run", run.config, "--data-dir", run.data_dir],
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    run.wait_ready()
    before = run.part(ENGINE).pid
    where = urlsplit(run.api("/api/health")["url"])
    idle = [socket.socket() for _ in range(400)]
    for client in idle:
        client.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            client.connect((where.hostname, where.port))
    run.kill(ENGINE)
    wait_until(lambda: run.part(ENGINE).pid != before, what="another engine, while the clients stay")
    run.wait_ready()
    for client in idle:
        client.close()
    collector = Collector(out)
    send(feed, b"after\n")
    assert collector.wait(1)[-1] == b"after"
    collector.close()
    assert run.stop() == 0
