"""The page of a Kafka topic: its records, partitions and their lag."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from gauss.clients.kafka.admin import Admin
from helpers.kafka import Given, SecuredBroker, produce, topic_name
from helpers.run import Run, free_port
from helpers.waiting import wait_until
from web.conftest import Pages

pytestmark = pytest.mark.system


def pipeline(brokers: list[str], topic: str, port: int) -> str:
    return f"""
formats = [{{ name = "account", plugin = "json", config = {{ fields = [{{ name = "balance", type = "int64" }}] }} }}]

[[topics]]
name = "accounts"
storage = "kafka"
storage_config = {{ brokers = {json.dumps(brokers)}, topic = "{topic}", partitions = 2, format = "account" }}

[[topics]]
name = "rich"
storage = "memory"

[[processors]]
name = "filter"
plugin = "filter"
source = {{ topic = "accounts", read = "offset" }}
target = {{ topic = "rich" }}
config = {{ input = {{ format = "account" }}, where = ".balance > 1" }}

[[processors]]
name = "all"
plugin = "tcp-sink"
source = {{ topic = "accounts", read = "offset" }}
config = {{ port = {port}, start = "resume", output = {{ framing = "newline" }} }}
"""


def test_a_kafka_topic_shows_records_partitions_and_lag(kafka: SecuredBroker, tmp_path: Path, browser: Browser) -> None:
    topic, port = topic_name(), free_port()
    Admin(kafka.settings).create(topic, 2)
    run = Run(tmp_path, pipeline(list(kafka.settings.brokers), topic, port))
    try:
        run.start()
        for partition, count in ((0, 3), (1, 5)):
            records: list[Given] = [(b'{"balance": %d}' % number, None, []) for number in range(count)]
            produce(kafka.settings, topic, records, partition=partition)
        wait_until(lambda: run.topic("accounts")["records"] == 8, what="the records")
        wait_until(lambda: run.topic("rich")["records"] == 4, what="what the processor has read")
        with Pages(run.data_dir / "engine.json", browser, run=run, feed=0, out=port).opened("/topics/accounts") as page:
            page.wait_for_selector(".tail-row >> text=/balance/")
            assert page.locator(".tail-row").count() == 8
            page.wait_for_selector("[aria-label=Partitions] >> text=up to date")
            rows = [row.split("\t") for row in page.locator("[aria-label=Partitions] tbody tr").all_inner_texts()]
            assert [row[0] for row in rows] == ["0", "1"]
            assert [row[2:] for row in rows] == [["filter", "up to date"]] * 2
            assert page.locator(".card:has-text('Readers') >> text=all").count() > 0
            assert "kafka" in page.inner_text("dl.pairs")
            page.click("text=Show in graph")
            page.wait_for_selector(".dock .tail-row")
            page.click("[data-id='processor filter']")
            page.select_option("[aria-label='What a seek moves']", "accounts/1")
            page.fill("#seek-to", "2")
            page.click("[data-testid=seek]")
            page.wait_for_selector("dialog >> text=Records from offset 2 on are read again")
            page.click("dialog footer >> text=Seek")
            wait_until(lambda: run.topic("rich")["records"] == 7, what="three records of that partition, read again")
    finally:
        run.end()
