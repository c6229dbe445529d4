"""Records that try to stop a transform or a table, in a whole run: they become dead letters, also when they are
replayed, and the run continues."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from typing import Any

import pytest

from gauss.plugins.formats.avro.container import close_container
from helpers.feeds import send
from helpers.run import Run, free_port
from helpers.waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

SCHEMA = {"type": "record", "name": "R", "fields": [{"name": "n", "type": "long"}, {"name": "at", "type": "string"}]}


TABLES = ("clickhouse", "postgres")


def pipeline(text: int, avro: int) -> str:
    """A hosted filter over JSON, whose source is copied into two tables, and a SQL query on Spark over Avro
    containers."""
    return f"""
[spark]
master = "local[2]"

[[formats]]
name = "timed"
plugin = "json"
config = {{ fields = [{{ name = "n", type = "int64" }}, {{ name = "at", type = "timestamp" }}] }}

[[formats]]
name = "brought"
plugin = "avro"
config = {{ schema_file = "own.avsc" }}

[[topics]]
name = "text"
storage = "memory"

[[topics]]
name = "avro"
storage = "memory"

[[topics]]
name = "text.out"
storage = "memory"

[[topics]]
name = "avro.out"
storage = "memory"

[[processors]]
name = "text-in"
plugin = "tcp-source"
target = {{ topic = "text" }}
config = {{ port = {text}, input = {{ framing = "length_prefixed", prefix_type = "u32be" }} }}

[[processors]]
name = "avro-in"
plugin = "tcp-source"
target = {{ topic = "avro" }}
config = {{ port = {avro}, input = {{ framing = "length_prefixed", prefix_type = "u32be" }} }}

[[processors]]
name = "hosted"
plugin = "filter"
source = {{ topic = "text", read = "offset" }}
target = {{ topic = "text.out" }}
config = {{ input = {{ format = "timed" }}, where = ".n > 0 and .at != null" }}

[[processors]]
name = "on-spark"
plugin = "sql"
source = {{ topic = "avro", read = "offset" }}
target = {{ topic = "avro.out" }}
config = {{ input = {{ format = "brought" }}, output = {{ format = "json" }},
    query = "SELECT n, at FROM input WHERE n > 0" }}
"""


def with_tables(text: str) -> str:
    """The config with a table in each embedded server, fed with the same JSON."""
    for system in TABLES:
        text += f"""
[[topics]]
name = "{system}"
storage = "{system}"
storage_config = {{ format = "timed", flush_interval = "100ms" }}

[[processors]]
name = "to-{system}"
plugin = "passthrough"
source = {{ topic = "text", read = "offset" }}
target = {{ topic = "{system}" }}
"""
    return text


def framed(*records: bytes) -> bytes:
    return b"".join(struct.pack(">I", len(record)) + record for record in records)


def test_transforms_outlive_records_made_to_stop_them(gauss: Callable[[str], Run]) -> None:
    text, avro = free_port(), free_port()
    run = gauss(with_tables(pipeline(text, avro)))
    (run.folder / "own.avsc").write_text(json.dumps(SCHEMA))
    run.start()
    good = [b'{"n": %d, "at": "2026-01-02T03:04:05Z"}' % number for number in range(1, 11)]
    huge = [b'{"n": 1, "at": "' + b"x" * (4 << 20) + b'"}'] * 5
    send(text, framed(*good[:5], *huge, b"[" * 100_000, *good[5:]))
    rows = [close_container(json.dumps(SCHEMA), bytes([2 * number, 2]) + b"x", 1) for number in range(1, 11)]
    nasty = [
        close_container('{"type": "record", "name": "R", "fields": [{"name": "a"}]}', b"", 1),
        close_container("[" * 100_000, b"", 1),
        close_container('{"type": "record", "name": "R", "fields": []}', b"", 2**40),
    ]
    send(avro, framed(*rows[:5], *nasty, *rows[5:]))
    wait_until(lambda: run.topic("text.out")["end"] == 10, 240, "ten records of text")
    wait_until(lambda: run.topic("avro.out")["end"] == 10, 240, "ten records of Avro")

    def stored(system: str) -> int:
        return len(run.cli("query", system, "--json").stdout.splitlines())

    for system in TABLES:
        wait_until(lambda system=system: stored(system) == 10, 240, f"ten rows in {system}")  # type: ignore[misc]

    def buried() -> dict[str, int]:
        groups = json.loads(run.cli("dlq", "ls", "--json").stdout)["groups"]
        found: dict[str, int] = {}
        for group in groups:
            found[group["processor"]] = found.get(group["processor"], 0) + group["count"]
        return found

    refused = {"hosted": 6, "on-spark": 3, "_table.clickhouse": 6, "_table.postgres": 6}
    wait_until(lambda: buried() == refused, 60, "a letter per hostile record and processor")

    def letters() -> list[dict[str, Any]]:
        return list(json.loads(run.cli("dlq", "show", "-n", "100", "--json").stdout)["letters"])

    assert all(len(letter["detail"]) < 2_000 for letter in letters())
    replayed = json.loads(run.cli("dlq", "replay", "--all", "--json").stdout)
    assert (replayed["replayed"], replayed["refused"]) == (6, 15)  # letters of huge records are cut
    wait_until(
        lambda: sorted(each["attempts"] for each in letters()) == [1] * 15 + [2] * 6, 120, "six letters tried twice"
    )
    assert buried() == refused
    send(text, framed(good[0]))
    send(avro, framed(rows[0]))
    wait_until(lambda: run.topic("text.out")["end"] == 11, 120, "one more record of text")
    wait_until(lambda: run.topic("avro.out")["end"] == 11, 120, "one more record of Avro")
    for system in TABLES:
        wait_until(lambda system=system: stored(system) == 11, 120, f"one more row in {system}")  # type: ignore[misc]
