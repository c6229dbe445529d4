"""Processes are killed while two tables fill: both hold every record of their inbox, once. `GAUSS_TABLE_KILLS=100`
makes it a long run."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable

import pytest

from helpers.embedded import ask
from helpers.feeds import Counter
from helpers.run import DRIVER, Run, free_port
from helpers.waiting import wait_until

Make = Callable[[str], Run]
KILLS = int(os.environ.get("GAUSS_TABLE_KILLS", "5"))
VICTIMS = ["engine", "driver", "jvm", "clickhouse", "postgres owner", "postgres"]
PER_SECOND = 1_000
pytestmark = [pytest.mark.spark, pytest.mark.fault, pytest.mark.timeout(900 + 240 * KILLS)]

TABLE = """
[[topics]]
name = "{storage}"
storage = "{storage}"
storage_config = {{ format = "numbers", flush_interval = "200ms" }}

[[processors]]
name = "feed-{storage}"
plugin = "tcp-source"
target = {{ topic = "{storage}" }}
config = {{ port = {port}, ack = "count", input = {{ framing = "newline", delimiter = "\\n" }} }}
"""


def pipeline(ports: dict[str, int]) -> str:
    """Numbers from a socket into a table, once per system."""
    head = """
[spark]
master = "local[2]"

[[formats]]
name = "numbers"
plugin = "json"
config = { fields = [{ name = "n", type = "int64" }] }
"""
    return head + "".join(TABLE.format(storage=storage, port=port) for storage, port in ports.items())


def count(run: Run, storage: str) -> int:
    found = ask(run.data_dir, storage, f"SELECT count(*) FROM {storage}")
    return int(found[0]) if found else 0


def reached(run: Run, storage: str) -> int:
    """The number of committed records. For Postgres it is read from the ledger, since counting the rows of a long run
    again and again would load the machine more than the run itself."""
    if storage == "clickhouse":
        return count(run, storage)
    found = ask(run.data_dir, storage, "SELECT max(stop) FROM _gauss_ledger")
    return int(found[0] or 0) if found else 0


def kill(run: Run, victim: str) -> None:
    if victim == "postgres":  # kill the server itself, whose owner process must notice
        owner = run.part("gauss.clients.postgres.owner")
        wait_until(owner.children, what="the server of its owner")[0].send_signal(signal.SIGKILL)
        return
    markers = {
        "engine": "gauss.stream.engine",
        "driver": DRIVER,
        "jvm": "org.apache.spark.deploy",
        "clickhouse": "gauss.clients.clickhouse.owner",
        "postgres owner": "gauss.clients.postgres.owner",
    }
    run.kill(markers[victim])


def test_killed_at_random_both_tables_hold_every_record_once(gauss: Make) -> None:
    ports = {storage: free_port() for storage in ("clickhouse", "postgres")}
    run = gauss(pipeline(ports)).start()
    counters = {storage: Counter(port, PER_SECOND) for storage, port in ports.items()}
    wait_until(lambda: all(reached(run, storage) > PER_SECOND for storage in ports), 240, "flow")
    seed = random.randrange(1 << 32)
    chosen = random.Random(seed)
    for number in range(KILLS):
        # Each process once, then random ones.
        victim = VICTIMS[(number + seed) % len(VICTIMS)] if number < len(VICTIMS) else chosen.choice(VICTIMS)
        time.sleep(chosen.random() * 2)
        kill(run, victim)
        seen = {storage: counter.acknowledged for storage, counter in counters.items()}
        told = f"flow after kill {number} of {victim} (seed {seed})"
        print(time.strftime("%H:%M:%S"), told, flush=True)

        def flows(seen: dict[str, int] = seen) -> bool:
            return all(reached(run, storage) > before for storage, before in seen.items())

        wait_until(flows, 240, told)
    totals = {storage: counter.finish() for storage, counter in counters.items()}
    for storage, total in totals.items():
        records = wait_until(lambda storage=storage: run.topic(storage)["end"])  # type: ignore[misc]
        wait_until(lambda s=storage, r=records: count(run, s) >= r, 240, f"all rows of {storage}")  # type: ignore[misc]
        # A sender repeats records after a lost acknowledgement; they differ by offset.
        wanted = "count(*), count(DISTINCT _offset), min(_offset), max(_offset), count(DISTINCT n), min(n), max(n)"
        found = wait_until(lambda s=storage, w=wanted: ask(run.data_dir, s, f"SELECT {w} FROM {s}"))  # type: ignore[misc]
        assert found == (records, records, 0, records - 1, total, 0, total - 1), (storage, seed)
