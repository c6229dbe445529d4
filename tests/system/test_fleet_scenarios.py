"""The scenarios of a fleet with worker processes, a Postgres that they reach through a proxy, Kafka and ClickHouse."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import urlopen

import psutil
import psycopg
import pytest

from gauss.clients.embedded import EmbeddedServer, ensure
from gauss.fleet.fleet_store import FleetStore
from gauss.fleet.store.configs import Kind
from helpers.fleet import TTL_SECONDS, WorkerProcess, World
from helpers.kafka import SecuredBroker
from helpers.proxy import Proxy
from helpers.run import free_port
from helpers.waiting import stays, suspend, wait_until

pytestmark = [pytest.mark.system, pytest.mark.fault]
HOUR = 3_600
RECONCILE_SECONDS = 0.5 * 1.2
"""With jitter."""


class Fleet:
    """A store in Postgres, and worker processes without Spark."""

    def __init__(self, folder: Path, postgres: str, kafka: SecuredBroker, clickhouse: EmbeddedServer) -> None:
        self.folder, self.url = folder, postgres
        self._kafka, self._clickhouse = kafka, clickhouse
        self.store = FleetStore(postgres, folder / "fleet.key")
        self.workers: list[WorkerProcess] = []
        self.proxies: list[Proxy] = []

    def pipeline(self) -> World:
        return World(self.store, self._kafka.broker.address, self._clickhouse.endpoint)

    def proxy(self) -> Proxy:
        """A way to the store that can be cut."""
        self.proxies.append(Proxy(urlsplit(self.url).port or 0, host="127.0.0.1"))
        return self.proxies[-1]

    def worker(self, *options: str, proxy: Proxy | None = None, skew: int = 0) -> WorkerProcess:
        url = self.url
        if proxy is not None:
            url = url.replace(f":{urlsplit(url).port}/", f":{proxy.port}/")
        name = f"worker{len(self.workers)}"
        self.workers.append(WorkerProcess(self.folder, name, url, *options, skew=skew))
        self.workers[-1].wait_up()
        return self.workers[-1]

    def free_seconds(self, pipeline_id: str) -> float:
        """For how long a slot that is wanted has been free by the clock of the database; 0 if none is."""
        found = [each for each in self.store.leases.vacancies() if each.pipeline_id == pipeline_id]
        return max((each.free_ms for each in found), default=0) / 1000

    def close(self) -> None:
        for worker in self.workers:
            with contextlib.suppress(psutil.NoSuchProcess):
                psutil.Process(worker.process.pid).resume()
            worker.end()
        for proxy in self.proxies:
            proxy.close()
        self.store.close()


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[EmbeddedServer, EmbeddedServer]]:
    folder = tmp_path_factory.mktemp("servers")
    with ensure("postgres", folder / "postgres") as postgres, ensure("clickhouse", folder / "clickhouse") as clickhouse:
        yield postgres, clickhouse


@pytest.fixture
def fleet(servers: tuple[EmbeddedServer, EmbeddedServer], kafka: SecuredBroker, tmp_path: Path) -> Iterator[Fleet]:
    url, name = servers[0].endpoint.url, f"fleet_{time.monotonic_ns()}"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    made = Fleet(tmp_path, f"{url.rpartition('/')[0]}/{name}", kafka, servers[1])
    yield made
    made.close()


def test_workers_meet_replicas_exactly_while_they_are_scaled(fleet: Fleet) -> None:
    """One worker and one replica; more workers than replicas; as many; more replicas; fewer; two pipelines."""
    world, other = fleet.pipeline(), fleet.pipeline()
    world.more(300)
    world.want(replicas=1)
    first = fleet.worker()
    world.wait_sent()
    assert world.owners() == {0: first.id}
    ids = {first.id, *(fleet.worker().id for _ in range(2))}
    world.more(300)
    world.wait_sent()
    assert len(world.owners()) == 1, "two more workers have nothing to do"
    world.want(replicas=3)
    wait_until(lambda: set(world.owners().values()) == ids)
    wait_until(lambda: {each.slot for each in world.claims()} == {0, 1, 2}, what=world.claims)
    other.want(replicas=2)
    other.more(300)
    world.more(300)
    other.wait_sent()
    world.wait_sent()
    world.want(replicas=1)
    wait_until(lambda: list(world.owners()) == [0])
    world.more(300)
    world.wait_sent()
    wait_until(lambda: {each.slot for each in world.claims()} == {0})
    wait_until(lambda: len(other.owners()) == 2)  # one of them may be on its way to the worker that has none now
    world.want(replicas=5)  # more than partitions: those without one wait
    wait_until(lambda: len(world.owners()) == 5)
    world.more(300)
    world.wait_sent()
    world.want("stopped")
    other.want("stopped")
    wait_until(lambda: not world.owners() and not other.owners())
    assert all(each.worker_id is None for each in [*world.claims(), *other.claims()])


def test_the_slot_of_a_killed_worker_is_taken_within_the_ttl_and_two_reconciles(fleet: Fleet) -> None:
    world = fleet.pipeline()
    world.want(replicas=1)
    first = fleet.worker()
    wait_until(world.owners)
    second = fleet.worker()
    world.more(1_000)
    wait_until(lambda: len(world.rows()) > 50)
    first.process.kill()
    (until,) = [each.lease_until for each in fleet.store.leases.assignments(world.id)]
    wait_until(lambda: world.owners() == {0: second.id})
    (taken,) = [each.acquired_at for each in fleet.store.leases.assignments(world.id)]
    # The bound of a machine that has nothing else to do, doubled for one that has.
    assert until < taken < until + 2 * 2 * RECONCILE_SECONDS * 1000 + 1_000
    world.wait_sent()


def test_a_worker_that_was_suspended_for_three_ttls_commits_nothing_when_it_wakes(fleet: Fleet) -> None:
    world = fleet.pipeline()
    world.want(replicas=1)
    first = fleet.worker()
    wait_until(world.owners)
    second = fleet.worker()
    world.more(3_000)
    wait_until(lambda: len(world.rows()) > 50)
    suspend(psutil.Process(first.process.pid))
    began = time.monotonic()
    wait_until(lambda: world.owners() == {0: second.id})
    world.more(300)
    world.wait_sent()
    wait_until(lambda: time.monotonic() - began > 3 * TTL_SECONDS)
    psutil.Process(first.process.pid).resume()
    world.more(300)
    world.wait_sent()
    wait_until(lambda: "the slot is lost" in first.log.read_text())
    assert world.owners() == {0: second.id}
    assert sum(each.rows for each in world.claims()) == world.sent


def test_a_worker_that_is_cut_off_from_the_store_pauses_before_another_takes_over(fleet: Fleet) -> None:
    world = fleet.pipeline()
    world.want(replicas=1)
    proxy = fleet.proxy()
    first = fleet.worker(proxy=proxy)
    wait_until(world.owners)
    second = fleet.worker()
    world.more(1_000)
    wait_until(lambda: len(world.rows()) > 50)
    proxy.is_mute = True
    wait_until(lambda: world.owners() == {0: second.id}, 3 * TTL_SECONDS)
    world.more(300)
    world.wait_sent()
    proxy.is_mute = False
    wait_until(lambda: "is lost" in first.log.read_text())
    world.more(300)
    world.wait_sent()
    assert world.owners() == {0: second.id}


def test_a_store_that_is_away_for_longer_than_the_ttl_stops_all_work_until_it_is_back(fleet: Fleet) -> None:
    world = fleet.pipeline()
    world.want(replicas=2)
    ways = [fleet.proxy(), fleet.proxy()]
    for way in ways:
        fleet.worker(proxy=way)
    world.more(300)
    world.wait_sent()
    for way in ways:
        way.is_mute = True
    began = time.monotonic()
    wait_until(lambda: not world.owners(), 3 * TTL_SECONDS)
    world.more(300)
    assert len(world.rows()) < world.sent
    wait_until(lambda: time.monotonic() - began > TTL_SECONDS + 2)
    rows = len(world.rows())
    stays(lambda: len(world.rows()) == rows, 1.0)
    for way in ways:
        way.is_mute = False
    world.wait_sent()
    wait_until(lambda: len(world.owners()) == 2)


def test_wall_clocks_that_are_wrong_by_an_hour_change_nothing(fleet: Fleet) -> None:
    world = fleet.pipeline()
    world.want(replicas=2)
    ids = {fleet.worker(skew=skew).id for skew in (HOUR, -HOUR)}
    world.more(600)
    wait_until(lambda: set(world.owners().values()) == ids)
    world.wait_sent()
    epochs = {each.slot: each.epoch for each in fleet.store.leases.assignments(world.id)}
    stays(lambda: set(world.owners().values()) == ids, 1.5 * TTL_SECONDS, what=world.owners)
    assert {each.slot: each.epoch for each in fleet.store.leases.assignments(world.id)} == epochs
    fleet.workers[0].process.kill()
    wait_until(lambda: set(world.owners().values()) == {fleet.workers[1].id} and len(world.owners()) == 2)
    world.more(600)
    world.wait_sent()


def test_workers_without_leases_share_partitions_whatever_the_replicas_are(fleet: Fleet) -> None:
    world = fleet.pipeline()
    world.want(replicas=1)
    ids = {fleet.worker("--no-leases").id for _ in range(2)}
    world.more(600)
    wait_until(lambda: {each.worker_id for each in world.claims()} == ids, what=world.claims)
    world.wait_sent()
    fleet.workers[0].process.kill()
    world.more(600)
    world.wait_sent()
    assert not world.owners()


def test_a_slow_or_failing_pipeline_holds_up_no_other_and_a_deleted_one_stops(fleet: Fleet) -> None:
    failing, good = fleet.pipeline(), fleet.pipeline()
    columns = [{"fieldPath": "id", "column": "id", "type": "Int64"}]
    failing.put(Kind.CLICKHOUSE, {**failing.clickhouse, "createTableIfMissing": False})
    failing.more(300)
    failing.want()
    good.want()
    port = free_port()
    worker = fleet.worker("--metrics-port", str(port))
    wait_until(lambda: any("is missing" in each for each in failing.reasons()))
    good.more(300)
    good.wait_sent()
    failing.put(Kind.CLICKHOUSE, failing.clickhouse)
    failing.put(Kind.MAPPING, {"columns": columns, "orderBy": ["id"]})
    failing.wait_sent()
    good.store.pipelines.delete(good.id, "test")
    wait_until(lambda: len(fleet.store.leases.assignments()) == 1)
    good.ids(300, 600)
    failing.more(300)
    failing.wait_sent()
    assert len(good.rows()) == 300
    assert worker.process.poll() is None
    with urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        lines = answer.read().decode().splitlines()
    assert {"gauss_worker_slots_held 1", "gauss_worker_slots_usable 1", "gauss_worker_instances 1"} <= set(lines)
    with urlopen(f"http://127.0.0.1:{port}/healthz") as answer:
        assert answer.read() == b"up\n"
    assert json.dumps(failing.owners()) == json.dumps({0: worker.id})
