"""Keys, partitions and headers of Kafka records as columns of a table, and in streaming queries."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from helpers.kafka import Given, SecuredBroker, produce, topic_name
from helpers.kafka_kills import Received
from helpers.run import Run
from helpers.waiting import wait_until

Make = Callable[[str], Run]
pytestmark = [pytest.mark.spark, pytest.mark.timeout(400)]
PAGE = (Path(__file__).parents[2] / "docs" / "kafka.md").read_text()
QUERIES = """
[spark]
master = "local[2]"

[[topics]]
name = "queried"
storage = "memory"

[[topics]]
name = "firsts"
storage = "memory"

[[processors]]
name = "query"
plugin = "sql"
source = { topic = "orders", read = "offset" }
target = { topic = "queried" }
config = { input = { format = "order" }, output = { format = "json" }, query = '''
SELECT `@key` AS k, `@partition` AS p, `@offset` AS o, `@headers`.trace AS h, amount FROM input
''' }

[[processors]]
name = "first"
plugin = "dedup"
source = { topic = "orders", read = "offset" }
target = { topic = "firsts" }
config = { input = { format = "json" }, key = ["@key"], within = "1h" }
"""


COPY = """
[[topics]]
name = "copied"
storage = "kafka"
storage_config = {{ brokers = {brokers}, topic = "{topic}", partitions = 1 }}

[[processors]]
name = "copy"
plugin = "passthrough"
source = {{ topic = "orders", read = "offset" }}
target = {{ topic = "copied" }}
"""


def test_keys_land_in_a_table_are_read_by_queries_and_are_copied(gauss: Make, kafka: SecuredBroker) -> None:
    settings, topic, copied = kafka.settings, topic_name(), topic_name()
    text = re.search(r"<!-- file: landed.toml -->\n```toml\n(.*?)```", PAGE, re.DOTALL)
    assert text is not None
    storage = f'brokers = {json.dumps(settings.brokers)}, topic = "{topic}", partitions = 2'
    copy = COPY.format(brokers=json.dumps(settings.brokers), topic=copied)
    run = gauss(text[1].replace('brokers = ["127.0.0.1:9092"]', storage) + QUERIES + copy).start()
    for part in (0, 1):
        records: list[Given] = [(b'{"amount": %d}' % n, b"k%d" % (n % 2), [("trace", b"t%d" % n)]) for n in range(3)]
        produce(settings, topic, records, partition=part)
    wanted = [
        {"k": f"k{n % 2}", "p": part, "o": n, "h": f"t{n}", "amount": float(n)} for part in (0, 1) for n in range(3)
    ]
    wait_until(lambda: len(rows(run, "landed")) == len(rows(run, "queried")) == 6, 120, run.state)
    assert sorted(rows(run, "queried"), key=lambda row: (row["p"], row["o"])) == wanted
    landed = sorted((row["part"], row["amount"], row["customer"], row["trace"]) for row in rows(run, "landed"))
    assert landed == [(row["p"], row["amount"], row["k"], row["h"]) for row in wanted]
    wait_until(lambda: len(rows(run, "firsts")) == 2, 60, run.state)
    assert sorted(row["amount"] for row in rows(run, "firsts")) == [0, 1]
    received = Received(settings, copied)
    wait_until(lambda: received.look() == 6, 60, run.state)
    assert sorted((row["amount"], row["key"]) for row in received.rows) == sorted(
        (row["amount"], row["k"]) for row in wanted
    )
    check_previews(run)


def check_previews(run: Run) -> None:
    """What pages offer for topics in Kafka is what the engine allows."""

    def offered(query: str) -> dict[str, Any]:
        return {each["action"]: each for each in run.api(f"/api/processors/copy/actions?{query}")["actions"]}

    end = offered("to=end")
    assert not end["rebuild"]["allowed"] and "copied is in an outside system" in end["rebuild"]["refusal"]
    assert end["seek"]["allowed"] and "all 2 partitions of orders" in end["seek"]["title"]
    assert end["seek"]["what"].startswith("0 records are skipped")
    assert not offered("to=1")["seek"]["allowed"] and "name one, such as orders/1" in offered("to=1")["seek"]["what"]
    assert run.cli("readers", "seek", "orders", "copy", "1", check=False).returncode
    one = offered("to=1&topic=orders/1")["seek"]
    assert one["allowed"] and one["topic"] == "orders/1" and "from offset 1 on are read again" in one["what"]
    assert not offered("to=99&topic=orders/1")["seek"]["allowed"]
    found = json.loads((run.data_dir / "engine.json").read_text())
    asked = {"processor": "land", "data": '{"amount": 1}'}
    authorization = {"Authorization": f"Bearer {found['token']}"}
    tried = httpx.post(found["endpoint"] + "/api/dlq/try", json=asked, headers=authorization, timeout=60).json()
    assert tried["passes"], tried
    assert json.loads(tried["results"][0]["data"]) == {"customer": None, "part": None, "trace": None, "amount": 1.0}


def rows(run: Run, topic: str) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in run.cli("query", topic, "--json").stdout.splitlines()]
    return [json.loads(row["data"]) if isinstance(row["data"], str) else row["data"] for row in found]
