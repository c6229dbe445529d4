"""Kills and cuts off the parts of a fleet at random moments, and looks whether each record is one row.

`make fleet-kills` makes 100 rounds with workers on Spark, and goes on where it was stopped.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import signal
import sys
import time
from pathlib import Path

import psutil

from gauss.clients.kafka.broker import Broker, new_cluster_id
from gauss.clients.kafka.broker_properties import Ports
from gauss.fleet.fleet_store import FleetStore
from gauss.model.errors import GaussError
from helpers.fleet import TTL_SECONDS, WorkerProcess, World
from helpers.killable_server import KillableServer
from helpers.proxy import Proxy
from helpers.run import free_port
from helpers.waiting import suspend, wait_until

VICTIMS = ("worker", "clickhouse", "cut", "worker", "store", "broker", "pause", "worker", "clickhouse", "restart")
WORKERS, REPLICAS = 2, 3


class FleetKills:
    """A pipeline with its own Kafka, ClickHouse and store, and workers that reach the store through proxies."""

    def __init__(self, folder: Path, *, spark: bool) -> None:
        self._folder, self._spark = folder, spark
        self._stack = contextlib.ExitStack()
        self._broker = Broker(folder / "broker", {1: Ports(free_port(), free_port())})
        self._broker.create(new_cluster_id())
        self._broker.start()
        self._stack.callback(self._broker.kill)
        self._clickhouse = self._stack.enter_context(KillableServer("clickhouse", folder / "clickhouse"))
        self._postgres = self._stack.enter_context(KillableServer("postgres", folder / "postgres"))
        self._url, self._port = self._postgres.endpoint.url, self._postgres.endpoint.port
        self.store = FleetStore(self._url, folder / "fleet.key")
        self.world = World(self.store, self._broker.address, self._clickhouse.endpoint)
        self.world.want(replicas=REPLICAS)
        self._workers: list[tuple[WorkerProcess, Proxy]] = []
        self._started = 0
        for _ in range(WORKERS):
            self._start()

    def _start(self) -> None:
        proxy = Proxy(self._port, host="127.0.0.1")
        url = self._url.replace(f":{self._port}/", f":{proxy.port}/")
        worker = WorkerProcess(self._folder, f"worker{self._started}", url, spark=self._spark)
        self._started += 1
        self._workers.append((worker, proxy))

    def rows(self) -> int:
        try:
            return int(self.world.query("SELECT count() FROM {table}")[0][0])
        except Exception:  # the table is not made yet, or its server is away
            return 0

    def round(self, victim: str, chance: random.Random) -> None:
        """A fault while records become rows."""
        before = self.rows()
        self.world.more(chance.randrange(300, 1_500))
        wait_until(lambda: self.rows() > before, 240, self.state)
        time.sleep(chance.random() * 0.3)  # the moment is what differs between rounds
        self._fault(victim, chance)
        self.world.more(chance.randrange(300, 1_500))

    def _fault(self, victim: str, chance: random.Random) -> None:
        match victim:
            case "worker":
                self._kill_worker(chance)
            case "restart":
                self._restart_worker(chance)
            case "pause":
                self._pause_worker(chance)
            case "cut":
                self._cut_off(chance)
            case "store":
                self._kill_store()
            case "clickhouse":
                self._clickhouse.kill()
                self._clickhouse.start()
            case "broker":
                self._broker.kill()
                self._broker.start()

    def check(self) -> None:
        """Each record is one row, and the store has counted each once."""
        wait_until(lambda: self.rows() >= self.world.sent, 300, self.state)
        self.world.wait_sent()
        wait_until(lambda: sum(each.rows for each in self.world.claims()) == self.world.sent, what=self.state)
        assert not self.store.letters.list(self.world.id)

    def state(self) -> object:
        try:
            return self.rows(), self.world.sent, self.world.claims(), self.world.owners(), self.world.reasons()
        except GaussError as error:
            return error.message

    def _kill_worker(self, chance: random.Random) -> None:
        worker, proxy = self._workers.pop(chance.randrange(WORKERS))
        worker.end()
        proxy.close()
        self._start()

    def _restart_worker(self, chance: random.Random) -> None:
        """It drains and releases its slots."""
        worker, proxy = self._workers.pop(chance.randrange(WORKERS))
        worker.wait_up()
        worker.process.send_signal(signal.SIGTERM)
        assert worker.process.wait(120) == 0, worker.log.read_text()
        proxy.close()
        self._start()

    def _pause_worker(self, chance: random.Random) -> None:
        worker, _ = self._workers[chance.randrange(WORKERS)]
        worker.wait_up()
        process = psutil.Process(worker.process.pid)
        stopped = [process, *process.children(recursive=True)]
        for each in stopped:
            suspend(each)
        time.sleep(TTL_SECONDS + 2)  # nothing happens in it that could be waited for
        for each in stopped:
            with contextlib.suppress(psutil.NoSuchProcess):
                each.resume()

    def _cut_off(self, chance: random.Random) -> None:
        _, proxy = self._workers[chance.randrange(WORKERS)]
        proxy.is_mute = True
        time.sleep(TTL_SECONDS + 2)  # likewise
        proxy.is_mute = False

    def _kill_store(self) -> None:
        for worker, _ in self._workers:
            worker.wait_up()  # a worker that finds no store when it starts ends
        self._postgres.kill()
        self._postgres.start()

        def answers() -> bool:
            with contextlib.suppress(GaussError):
                return bool(self.store.pipelines.list())
            return False

        wait_until(answers)

    def close(self) -> None:
        for worker, proxy in self._workers:
            with contextlib.suppress(psutil.NoSuchProcess):
                psutil.Process(worker.process.pid).resume()
            worker.end()
            proxy.close()
        self.store.close()
        self._stack.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--folder", type=Path, default=Path(".cache/fleet-kills"))
    asked = parser.parse_args()
    record = asked.folder.absolute() / "rounds.json"
    done = json.loads(record.read_text()) if record.exists() else []
    folder = record.parent / str(len(done))
    folder.mkdir(parents=True, exist_ok=True)
    kills = FleetKills(folder, spark=True)
    try:
        chance = random.Random(len(done))
        while len(done) < asked.kills:
            began, victim = time.monotonic(), VICTIMS[len(done) % len(VICTIMS)]
            kills.round(victim, chance)
            kills.check()
            done.append(victim)
            record.write_text(json.dumps(done))
            print(f"{len(done)} of {asked.kills}: {victim}: 0 lost, 0 duplicate, {kills.world.sent:,} records"
                  f" ({time.monotonic() - began:.0f} s)", flush=True)  # fmt: skip
    finally:
        kills.close()


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    main()
