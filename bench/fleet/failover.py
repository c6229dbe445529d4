"""A worker is killed: the time until the rows of records that were written meanwhile are in the table."""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path

import confluent_kafka
from bench.fleet.world import FleetWorld, family, fleet_world

TTL_SECONDS, RECONCILE_SECONDS = 8, 2


def run() -> list[dict[str, object]]:
    options = ["--lease-ttl", f"{TTL_SECONDS}s", "--reconcile-every", f"{RECONCILE_SECONDS}s"]
    with tempfile.TemporaryDirectory() as folder, fleet_world(Path(folder)) as world:
        pipeline = world.pipeline("orders", {"id": "Int64"}, partitions=3, flushIntervalMs=100)
        with world.worker("first", *options) as first:
            produce(world, 0)
            wait(lambda: world.rows(pipeline) == 1)
            with world.worker("second", *options):
                wait(lambda: sum(each.live for each in world.store.workers.list()) == 2)
                for each in family(first):
                    each.kill()
                began = time.perf_counter()
                produce(world, 1)
                wait(lambda: world.rows(pipeline) == 2)
                took = time.perf_counter() - began
    bound = TTL_SECONDS + 2 * RECONCILE_SECONDS
    what = f"a killed worker, TTL {TTL_SECONDS} s, reconciles every {RECONCILE_SECONDS} s: until rows flow again"
    return [{"what": what, "measured": f"{took:.1f} s", "aim": f"≤ {bound} s"}]


def produce(world: FleetWorld, number: int) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": ",".join(world.settings.brokers)})
    producer.produce("orders", json.dumps({"id": number}))
    producer.flush()


def wait(condition: object) -> None:
    while not condition():  # type: ignore[operator]
        time.sleep(0.05)
