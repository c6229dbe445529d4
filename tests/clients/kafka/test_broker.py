"""Local brokers that start, stop, are killed, and replicate."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from gauss.clients.embedded import ensure
from gauss.clients.endpoint import owned, read_endpoint
from gauss.clients.kafka import jars
from gauss.clients.kafka.admin import Admin
from gauss.clients.kafka.outgoing import Partitioning
from gauss.clients.kafka.producer import Producer
from gauss.clients.kafka.range_reader import CompiledReader
from gauss.clients.kafka.settings import KafkaSettings
from gauss.clients.kafka.transaction import TransactionalProducer
from gauss.model.errors import Fenced, GaussError, Unavailable
from helpers.kafka import cluster, data_of, numbered, settings
from helpers.waiting import wait_until

pytestmark = pytest.mark.fault
ONE = Partitioning(1)


def test_an_embedded_broker_keeps_address_and_records_and_ends_with_its_owner(tmp_path: Path) -> None:
    """The broker is killed and comes back while a writer and a reader keep their handles."""
    directory = tmp_path / "kafka"
    jars.class_path()  # fetched at the first run, which may take longer than an owner has to start
    with ensure("kafka", directory) as server:
        again = ensure("kafka", directory)
        assert again.process is None and again.endpoint == server.endpoint
        (address,) = server.endpoint.shown.values()
        producer, reader, admin = (
            Producer(settings(address)),
            CompiledReader(settings(address)),
            Admin(settings(address)),
        )
        admin.create("t")
        producer.write("t", numbered(range(10)), ONE)
        producer.flush()
        assert len(data_of(reader, "t", {0: 10})) == 10
        (java,) = psutil.Process(server.endpoint.pid).children(recursive=True)
        assert java.name() == "java" and server.process
        server.process.kill()
        server.process.wait()
        java.wait(30)
        assert not owned(directory)
    with ensure("kafka", directory) as server:
        assert server.endpoint.shown == {"bootstrap": address}
        producer.write("t", numbered(range(10, 20)), ONE)
        producer.flush()
        assert data_of(reader, "t", admin.stable("t", [0])) == [b"%d" % number for number in range(20)]
        (java,) = psutil.Process(server.endpoint.pid).children(recursive=True)
    assert not java.is_running() and read_endpoint(directory) is None
    producer.close()


class Writer(threading.Thread):
    """Writes numbers in transactions with their position, and after any error goes on where the position is."""

    def __init__(self, found: KafkaSettings) -> None:
        super().__init__(daemon=True)
        self.settings, self.admin = found, Admin(found)
        self.written, self.stopping = 0, threading.Event()
        self.failures: list[GaussError] = []

    def run(self) -> None:
        while not self.stopping.is_set():
            try:
                with TransactionalProducer(self.settings, "writer") as producer:
                    self._write(producer)
            except (Fenced, Unavailable) as error:
                self.failures.append(error)

    def _write(self, producer: TransactionalProducer) -> None:
        position = self.admin.committed("writer", "t", [0])
        at = position[0].offset if position else 0
        while not self.stopping.is_set():
            producer.begin()
            producer.write("t", numbered(range(at, at + 10)), ONE)
            producer.position("writer", "t", 0, at + 10, {})
            producer.commit()
            at += 10
            self.written = at

    def goes_on(self) -> None:
        before = self.written
        wait_until(lambda: self.written >= before + 50, 90, lambda: f"transactions; {self.failures}")


def coordinator(admin: Admin, topic: str, name: str) -> int:
    """The broker that leads the partition of an internal topic in which a transactional id or group is kept."""
    partitions = admin.describe(topic).partitions
    hashed = 0
    for character in name:  # as Java does
        hashed = (31 * hashed + ord(character)) & 0xFFFFFFFF
    hashed = abs(hashed - (1 << 32) if hashed >> 31 else hashed)
    return partitions[hashed % len(partitions)].leader


def test_leader_and_coordinators_that_are_killed_under_load_and_come_back_lose_and_double_nothing(
    tmp_path: Path,
) -> None:
    with cluster(tmp_path) as brokers:
        everywhere = settings(*(broker.address for broker in brokers))
        admin = Admin(everywhere)
        made = admin.create("t", 1, replication=3, config={"min.insync.replicas": "2"})
        assert len(made.partitions[0].replicas) == 3
        writer = Writer(everywhere)
        writer.start()
        writer.goes_on()
        parts: list[Callable[[], int]] = [
            lambda: admin.describe("t").partitions[0].leader,
            lambda: coordinator(admin, "__transaction_state", "writer"),
            lambda: coordinator(admin, "__consumer_offsets", "writer"),
        ]
        killed: set[int] = set()
        for part in parts:
            if (before := part()) in killed:  # a part that has moved is led by another broker than the first
                continue
            killed.add(before)
            brokers[before - 1].kill()
            writer.goes_on()
            assert part() != before
            brokers[before - 1].start(wait=False)
            wait_until(lambda: len(admin.describe("t").partitions[0].in_sync) == 3, what="the replica that is back")
            writer.goes_on()
        writer.stopping.set()
        writer.join(60)
        position = admin.committed("writer", "t", [0])[0].offset
        wait_until(lambda: admin.stable("t", [0]) == admin.latest("t", [0]), what="the last marker")
        found = data_of(CompiledReader(everywhere), "t", admin.stable("t", [0]))
        assert found == [b"%d" % number for number in range(position)], writer.failures
