"""Values of fields without a single type pass Spark as JSON text and are written as the original values."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

ANY_LIST = {"name": "array", "attrs": {"element": "json"}}
FIELDS = [{"name": "id", "type": "int64"}, {"name": "o", "type": "json"}, {"name": "l", "type": ANY_LIST}]
OTHER = {"input": {"format": "typed"}, "output": {"format": "json"}}


def step(plugin: str, target: str, **config: Any) -> dict[str, Any]:
    source = {"topic": "in", "read": "offset"}
    config = {"input": {"format": "json"}, **config}
    return {"name": target, "plugin": plugin, "source": source, "target": {"topic": target}, "config": config}


STEPS = [
    step("sql", "found", query="SELECT id, o AS copy, later, upper(s) AS s FROM input"),
    step("sql", "all", query="SELECT id, o, l FROM input", **OTHER),
    step("expression", "made", program="{id, o, later}"),
    step("expression", "added", add={"copy": ".o", "twice": ".id * 2"}),
    step("aggregator", "counted", group_by=["o"], interval="1s", event_time_field="at", aggregates={"n": "count()"}),
]
CONFIG: dict[str, Any] = {
    "formats": [{"name": "typed", "plugin": "json", "config": {"fields": FIELDS}}],
    "topics": [{"name": name, "storage": "memory"} for name in ("in", *(each["target"]["topic"] for each in STEPS))],
    "processors": STEPS,
}


def test_objects_and_mixed_values_are_not_written_as_texts(make_engine: Any, spawn_driver: Any) -> None:
    run = make_engine(CONFIG)
    run.send("in", [b'{"id":1,"o":{"k":[1,2.50]},"s":"x","l":[1,"x"],"at":1000}', b'{"id":2,"o":"text","at":1000}'])
    spawn_driver(run)
    assert run.wait_for("found", 2, 300) == [
        b'{"id":1,"copy":{"k":[1,2.50]},"later":null,"s":"X"}',
        b'{"id":2,"copy":"text","later":null,"s":null}',
    ]
    assert run.wait_for("all", 2)[0] == b'{"id":1,"o":{"k":[1,2.50]},"l":[1,"x"]}'
    assert run.wait_for("made", 2)[1] == b'{"id":2,"o":"text","later":null}'
    assert run.wait_for("added", 2)[1] == b'{"id":2,"o":"text","at":1000,"copy":"text","twice":4.0}'
    # A field that was absent when the types were decided may have any value.
    run.send("in", [b'{"id":3,"o":7,"later":"now","at":60000}'])
    assert run.wait_for("found", 3)[2] == b'{"id":3,"copy":7,"later":"now","s":null}'
    assert run.wait_for("made", 3)[2] == b'{"id":3,"o":7,"later":"now"}'
    run.send("in", [b'{"id":4,"at":120000}'])
    keys = {record.split(b',"window_start"')[0] for record in run.wait_for("counted", 3)}
    assert keys == {b'{"o":{"k":[1,2.50]}', b'{"o":"text"', b'{"o":7'}
