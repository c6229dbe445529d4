"""Stateless processors as queries of one real driver: a stream is joined, decompressed, changed and split."""

from __future__ import annotations

import gzip
import hashlib
import json
from typing import Any

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

JSON = {"format": "json"}


def step(plugin: str, source: str, target: str, **config: Any) -> dict[str, Any]:
    made: dict[str, Any] = {"name": f"{plugin}-{target or 'all'}", "plugin": plugin, "config": config}
    if source:
        made["source"] = {"topic": source, "read": "offset"}
    if target:
        made["target"] = {"topic": target}
    return made


TOPICS = ["east", "west", "all", "plain", "items", "named", "hidden", "few", "btc", "rest", "packed", "msgpack"]
ROUTES = [{"when": '.symbol == "BTC"', "topic": "btc"}]
CONFIG: dict[str, Any] = {
    "formats": [{"name": "named", "plugin": "json", "config": {"fields": [{"name": "name", "type": "string"}]}}],
    "topics": [{"name": name, "storage": "memory"} for name in TOPICS],
    "processors": [
        step("union", "", "all", sources=[{"topic": "east"}, {"topic": "west"}]),
        step("decompress", "all", "plain", algo="gzip"),
        step("flatten", "plain", "items", input=JSON, field="lots"),
        step("enrich", "items", "named", input=JSON, lookup={"key": "symbol", "table": {"BTC": {"name": "Bitcoin"}}}),
        step("mask", "named", "hidden", input=JSON, fields=["who"], method="hash"),
        step("symbol-filter", "hidden", "few", input=JSON, symbols=["BTC", "ETH"]),
        step("router", "few", "", input=JSON, routes=ROUTES, otherwise="rest"),
        step("compress", "rest", "packed", algo="gzip"),
        step("format-convert", "btc", "msgpack", input={"format": "named"}, output={"format": "msgpack"}),
    ],
}


def test_a_chain_of_nine_processors_gives_what_each_of_them_says(make_engine: Any, spawn_driver: Any) -> None:
    run = make_engine(CONFIG)
    spawn_driver(run)
    run.send("east", [gzip.compress(b'{"symbol":"BTC","who":"ann","lots":[1.50,2]}'), b"not compressed"])
    run.send("west", [gzip.compress(b'{"symbol":"%s","who":"bob","lots":[3]}' % name) for name in (b"ETH", b"XRP")])

    ann, bob = (hashlib.sha256(name).hexdigest() for name in (b"ann", b"bob"))
    assert run.wait_for("btc", 2, 300) == [
        b'{"symbol":"BTC","who":"%s","lots":%s,"name":"Bitcoin"}' % (ann.encode(), lot) for lot in (b"1.50", b"2")
    ]
    [packed] = run.wait_for("packed", 1)
    assert json.loads(gzip.decompress(packed)) == {"symbol": "ETH", "who": bob, "lots": 3}
    assert run.wait_for("msgpack", 2) == [b"\x81\xa4name\xa7Bitcoin"] * 2
    [letter] = [json.loads(letter) for letter in run.records("_dead")]
    assert (letter["processor"], letter["reason"]) == ("decompress-plain", "bad_compression")
