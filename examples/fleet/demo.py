"""`make demo-fleet`: orders from Kafka into ClickHouse by a fleet, shown live while it runs; it stops by itself.

Servers and the fleet are commands of `gauss`; all that is done to the fleet is done by its HTTP API.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import clickhouse_connect
import httpx
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

GAUSS = Path(sys.executable).with_name("gauss")
CACHE = Path(__file__).parents[2] / ".cache"
TOPIC, PARTITIONS, REPLICAS = "orders", 4, 2
BROKEN = 1_000
PATIENCE = 240  # seconds on a slow machine: for the first row, and for the last one
SHOPS = ("Berlin", "Lagos", "Lima", "Osaka", "Turin")
COUNTS = "SELECT count(), uniqExact(id) FROM orders"
console = Console()


@dataclass
class World:
    """What was sent, and what is known of the fleet."""

    stop: threading.Event = field(default_factory=threading.Event)
    """No more orders."""
    over: threading.Event = field(default_factory=threading.Event)
    sent: int = 0
    broken: int = 0
    rows: int = 0
    orders: int = 0
    status: dict[str, Any] = field(default_factory=dict)
    slots: list[dict[str, Any]] = field(default_factory=list)
    claims: list[dict[str, Any]] = field(default_factory=list)


@contextmanager
def running(folder: Path, *arguments: str, **environment: str) -> Iterator[dict[str, Any]]:
    """A command of gauss, with the line of JSON that it prints once it is up; it is stopped at the end."""
    log = folder.with_suffix(".log")
    with log.open("wb") as errors:
        command = [str(GAUSS), *arguments, "--data-dir", str(folder), "--json"]
        # The JVM's class archive is kept beside the checkout: the second demo starts in half the time.
        variables = {"GAUSS_CACHE_DIR": str(CACHE), **os.environ, **environment}
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=errors, start_new_session=True, env=variables
        )
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        if not line:
            raise SystemExit(f"gauss {arguments[0]} has ended:\n{log.read_text()}")
        yield json.loads(line)
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def generate(world: World, brokers: str, rate: int) -> None:
    """Orders, `rate` a second in bursts of 10 ms; some are cut off."""
    producer = Producer({"bootstrap.servers": brokers, "linger.ms": 5, "log_level": 0})
    due = time.monotonic()
    while not world.stop.is_set():
        for _ in range(max(1, rate // 100)):
            world.sent += 1
            order = {
                "id": world.sent,
                "at": time.time_ns() // 1_000_000,
                "customer": {"name": f"c{random.randrange(10_000)}", "shop": random.choice(SHOPS)},
                "items": random.sample(range(500), random.randint(1, 5)),
                "total": round(random.lognormvariate(3, 1), 2),
            }
            value = json.dumps(order)
            if world.sent % BROKEN == 0:
                world.broken += 1
                value = value[:-9]
            producer.produce(TOPIC, value, key=str(order["id"]))
        producer.poll(0)
        due += 0.01
        time.sleep(max(0.0, due - time.monotonic()))
    producer.flush()


def begin(api: httpx.Client, brokers: str, dsn: str) -> str:
    """Makes the pipeline and starts it; returns its path. The requests are those of docs/fleet.md."""

    def send(method: str, path: str, body: Any = None) -> Any:
        answer = api.request(method, path, json=body)
        if answer.is_error:
            raise SystemExit(f"{method} {path}: {answer.text}")
        return answer.json()

    made = send("POST", "/api/pipelines", {"name": "orders", "description": "orders of all shops"})
    path = f"/api/pipelines/{made['id']}"
    send("PUT", f"{path}/kafka-config", {"brokers": brokers, "topic": TOPIC, "startOffset": "earliest"})
    send("PUT", f"{path}/clickhouse-config", {"dsn": dsn, "table": "orders", "flushIntervalMs": 500})
    mapping = send("GET", f"{path}/proposal?limit=500&from=beginning")["mapping"]
    send("PUT", f"{path}/mapping", {**mapping, "orderBy": ["id"]})
    send("PUT", f"{path}/state", {"desired": "started", "replicas": REPLICAS})
    return path


def watch(world: World, api: httpx.Client, path: str, dsn: str) -> None:
    """What the fleet says of the pipeline, and what is in its table."""
    client = clickhouse_connect.get_client(dsn=dsn)
    while not world.over.wait(0.25):
        try:
            world.rows, world.orders = client.query(COUNTS).result_rows[0]
        except clickhouse_connect.driver.exceptions.DatabaseError:  # the table comes with the first range
            pass
        world.slots = api.get(f"{path}/assignments").json()
        world.claims = api.get(f"{path}/claims").json()
        world.status = api.get(f"{path}/status").json()


def table(title: str, *columns: str) -> Table:
    made = Table(title=title, title_justify="left")
    for number, column in enumerate(columns):
        made.add_column(column, justify="right" if number else "left", min_width=10)
    return made


def view(world: World, seconds: float) -> Group:
    seen = world.status
    path = f"orders → Kafka ({PARTITIONS} partitions) → {REPLICAS} replicas → ClickHouse"
    line = (
        f"{seconds:4.0f} s   sent {world.sent:,}, of which {world.broken:,} broken   rows {world.rows:,}   "
        f"dead letters {seen.get('deadLetters', 0):,}   lag {seen.get('lag', 0):,} messages, "
        f"{seen.get('lagSeconds', 0):.1f} s   {seen.get('observed', '')} {seen.get('reason', '')}"
    )
    slots = table("slots", "slot", "state", "epoch", "worker")
    for each in world.slots:
        slots.add_row(str(each["slot"]), each["state"], str(each["epoch"]), each["workerId"])
    claims = table("partitions", "partition", "slot", "next offset", "lag")
    for each in world.claims:
        claims.add_row(str(each["partition"]), str(each["slot"]), f"{each['nextOffset']:,}", f"{each['lag']:,}")
    return Group(Text(path, style="bold"), Text(line), slots, claims)


def is_complete(world: World) -> bool:
    return world.rows + world.status.get("deadLetters", 0) >= world.sent


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seconds", type=float, default=30)
    options.add_argument("--rate", type=int, default=2_000, help="orders a second")
    options.add_argument("--port", type=int, default=0, help="of the API and the pages; 0: any free one")
    options.add_argument("--forever", action="store_true")
    chosen = options.parse_args()
    world = World()
    with tempfile.TemporaryDirectory(prefix="gauss-fleet-") as name, ExitStack() as stack:
        folder = Path(name)
        console.print("[bold]Gauss fleet demo[/] starting Kafka, ClickHouse, Postgres and the fleet")
        brokers = stack.enter_context(running(folder / "kafka", "dev", "kafka"))["bootstrap"]
        dsn = stack.enter_context(running(folder / "clickhouse", "dev", "clickhouse"))["url"]
        store = stack.enter_context(running(folder / "postgres", "dev", "postgres"))["url"]
        key = str(folder / "fleet.key")
        serve = ("serve", "--with-worker", "--port", str(chosen.port))
        told = stack.enter_context(running(folder / "fleet", *serve, GAUSS_STORE=store, GAUSS_KEY_FILE=key))
        admin = AdminClient({"bootstrap.servers": brokers, "log_level": 0})
        admin.create_topics([NewTopic(TOPIC, PARTITIONS)])[TOPIC].result()
        generator = threading.Thread(target=generate, args=(world, brokers, chosen.rate), daemon=True)
        generator.start()
        while world.sent < 500:
            time.sleep(0.05)
        found = json.loads(Path(told["file"]).read_text())
        headers = {"Authorization": f"Bearer {found['token']}"}
        with httpx.Client(base_url=found["endpoint"], headers=headers, timeout=60) as api:
            path = begin(api, brokers, dsn)
            console.print(f"[bold]Watch it in a browser:[/] {told['pages']}", soft_wrap=True)
            watcher = threading.Thread(target=watch, args=(world, api, path, dsn), daemon=True)
            watcher.start()
            began = time.monotonic()
            try:
                with Live(console=console, refresh_per_second=4, transient=not console.is_terminal) as live:
                    while (took := time.monotonic() - began) < chosen.seconds + PATIENCE or chosen.forever:
                        if took > chosen.seconds and world.rows and not chosen.forever:
                            world.stop.set()
                            if not generator.is_alive() and is_complete(world):
                                break
                        live.update(view(world, took))
                        time.sleep(0.25)
            except KeyboardInterrupt:
                pass
            world.stop.set()
            generator.join(30)
            deadline = time.monotonic() + 30
            while not is_complete(world) and time.monotonic() < deadline:
                time.sleep(0.25)
            console.print(view(world, time.monotonic() - began))
            world.over.set()
            watcher.join()
    wanted = world.sent - world.broken
    is_exact = world.rows == world.orders == wanted
    answer = "each once" if is_exact else "[red]not what was sent[/]"
    console.print(f"{wanted:,} orders were sent, {world.orders:,} are in ClickHouse in {world.rows:,} rows: {answer}")
    return 0 if is_exact else 1


if __name__ == "__main__":
    raise SystemExit(main())
