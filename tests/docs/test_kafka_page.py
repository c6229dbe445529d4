"""The commands of the page about Kafka, executed: they run the starter of `gauss new --kafka`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import confluent_kafka
import pytest
import tomli

from gauss.config.check import check
from gauss.plugins.storages.kafka.spec import KafkaTopicConfig
from helpers.shell import Shell
from helpers.waiting import wait_until

PAGE = (Path(__file__).parents[2] / "docs" / "kafka.md").read_text()


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    made = Shell(tmp_path)
    yield made
    made.close()


def test_the_settings_of_the_page_pass_the_check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = dict(re.findall(r"<!-- file: (\S+) -->\n```toml\n(.*?)```", PAGE, re.DOTALL))
    for name in ("ca.pem", "client.pem", "client.key"):
        (tmp_path / name).touch()
    monkeypatch.setenv("KAFKA_PASSWORD", "secret")
    for name, text in files.items():
        (tmp_path / name).write_text(text)
        assert check(tmp_path / name).faults == []
    topics = [topic for text in files.values() for topic in tomli.loads(text)["topics"]]
    shown = {key for topic in topics if topic["storage"] == "kafka" for key in topic["storage_config"]}
    as_text = {"ca_pem", "certificate_pem", "private_key_pem", "private_key_password"}  # instead of the files
    assert shown == set(KafkaTopicConfig.model_fields) - as_text - {"partition_field"}  # which excludes partition_by
    assert "partition_field" in PAGE


def test_the_pipeline_that_lands_keys_passes_the_check(tmp_path: Path) -> None:
    (tmp_path / "landed.toml").write_text(landed_pipeline())
    assert check(tmp_path / "landed.toml").faults == []


def landed_pipeline() -> str:
    text = re.search(r"<!-- file: landed.toml -->\n```toml\n(.*?)```", PAGE, re.DOTALL)
    assert text is not None
    return text[1]


@pytest.mark.spark
@pytest.mark.system
@pytest.mark.timeout(400)
def test_the_first_large_trade_comes_out_with_its_key(shell: Shell) -> None:
    block = re.search(r"<!-- run -->\n```\n(.*?)```", PAGE, re.DOTALL)
    assert block is not None
    dev, new, check, run, send, tap = (line.partition("  #")[0].strip() for line in block[1].splitlines())
    shell.type(dev)
    broker = wait_until(lambda: shell.type("gauss db url kafka", check=False), 90).split()[-1]
    shell.type(new)
    assert 'topic "trades": Kafka has no topic trades yet' in shell.type(check)
    shell.type(run)
    shell.wait_for("ready in", "run.log", 240)
    shell.type(send)
    assert '"size":20' in shell.type(tap).replace(" ", "")
    conf = {"group.id": "of-others", "auto.offset.reset": "earliest", "isolation.level": "read_committed"}
    consumer = confluent_kafka.Consumer({"bootstrap.servers": broker, **conf})
    consumer.subscribe(["trades.large"])
    (found,) = wait_until(lambda: consumer.consume(1, 1.0), 60)
    consumer.close()
    assert (found.key(), json.loads(found.value())["size"]) == (b"BTC", 20)
