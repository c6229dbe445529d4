"""The market in Kafka: the commands of its page, and the same file on a cluster of Spark."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import confluent_kafka
import psutil
import pytest

from gauss.clients.kafka.settings import KafkaSettings, client_conf
from helpers.cluster import CONF, executors, standalone_workers
from helpers.kafka import SecuredBroker
from helpers.run import Run, free_port
from helpers.shell import Shell
from helpers.waiting import wait_until

EXAMPLE = Path(__file__).parents[2] / "examples" / "kafka-market"
QUOTES = 5_000

pytestmark = [pytest.mark.spark, pytest.mark.system, pytest.mark.timeout(600)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the example with another port, since that of the page may be in use."""
    shutil.copytree(EXAMPLE, tmp_path / "market")
    file = tmp_path / "market" / "gauss.toml"
    file.write_text(file.read_text().replace("9200", str(free_port())))
    return file.parent


@pytest.fixture
def shell(folder: Path) -> Iterator[Shell]:
    made = Shell(folder)
    yield made
    made.close()


def commands() -> list[str]:
    block = re.search(r"```\n(.*?)```", (EXAMPLE / "README.md").read_text(), re.DOTALL)
    assert block is not None
    return [line.partition("  #")[0].strip() for line in block[1].splitlines() if not line.startswith("#")]


def ids_in_kafka(settings: KafkaSettings, count: int) -> list[int]:
    """The ids of the topic `quotes`, as a consumer of somebody else reads them, once it has read so many."""
    conf = {"group.id": "of-others", "auto.offset.reset": "earliest", "isolation.level": "read_committed"}
    consumer = confluent_kafka.Consumer({**client_conf(settings), **conf})
    consumer.subscribe(["quotes"])
    found: list[int] = []

    def read() -> bool:
        found.extend(json.loads(each.value() or b"")["id"] for each in consumer.consume(count, 0.5) if not each.error())
        return len(found) >= count

    try:
        wait_until(read, 240, lambda: f"{count} quotes; {len(found)} were read")
        read()  # one that comes twice would follow
        return found
    finally:
        consumer.close()


def test_the_commands_of_the_page_show_every_quote_once_and_candles(shell: Shell) -> None:
    dev, export, check, run, send, scan, candles = commands()
    shell.type(dev)
    wait_until(lambda: shell.type("gauss db url kafka", check=False), 90)
    shell.type(export)
    assert "a run creates it with 4 partitions" in shell.type(check)
    shell.type(run)
    shell.wait_for("ready in", "run.log", 240)
    assert shell.type(send).endswith("5000 quotes sent, 250 of them twice")
    broker = KafkaSettings(brokers=[shell.type("gauss db url kafka").split()[-1]])
    assert sorted(ids_in_kafka(broker, QUOTES)) == list(range(1, QUOTES + 1))
    wait_until(lambda: "Bitcoin" in shell.type(scan), 60)
    wait_until(lambda: "BTCUSD" in shell.type(candles, check=False), 120)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[tuple[str, list[psutil.Process]]]:
    with standalone_workers(tmp_path, 2, cores=4) as made:
        yield made


def test_the_same_file_runs_on_two_workers_of_a_cluster(
    folder: Path, kafka: SecuredBroker, cluster: tuple[str, list[psutil.Process]]
) -> None:
    master, workers = cluster
    text = (folder / "gauss.toml").read_text()
    conf = ", ".join(f'"{key}" = "{value}"' for key, value in {**CONF, "spark.executor.cores": "4"}.items())
    run = Run(folder, text.replace("[spark]", f"[spark]\nconf = {{ {conf} }}"))
    (folder / "gauss.toml").unlink()
    run.environment |= {"SPARK_MASTER": master, "KAFKA_BROKERS": kafka.broker.address}
    try:
        run.start()
        assert all(executors(worker) for worker in workers)
        subprocess.run([sys.executable, str(folder / "quotes.py"), kafka.broker.address], check=True, timeout=120)
        assert sorted(ids_in_kafka(kafka.settings, QUOTES)) == list(range(1, QUOTES + 1))
        wait_until(lambda: len(run.cli("scan", "quotes.live", "{symbol}", "--json").stdout.splitlines()) >= 6, 60)
    finally:
        run.end()
