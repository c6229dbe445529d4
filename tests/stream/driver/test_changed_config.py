"""State of a processor whose config changes between two runs: kept, or reported before anything is lost."""

from __future__ import annotations

import copy
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from gauss.model.paths import DataDir
from gauss.stream.driver.state_check import lost_states

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

CODE = '''
from pyspark.sql import functions as F
from gauss.contracts.function import dataframe_function

@dataframe_function()
def per_minute(records):
    """Counts records per minute and symbol."""
    timed = records.withColumn("at", F.timestamp_millis("at")).withWatermark("at", "0 seconds")
    counts = timed.groupBy(F.window("at", "1 minute"), "symbol").count()
    return counts.select("symbol", F.unix_millis("window.start").alias("start"), "count")
'''
FIELDS = [{"name": "at", "type": "int64"}, {"name": "symbol", "type": "string"}]
CONFIG: dict[str, Any] = {
    "formats": [{"name": "hit", "plugin": "json", "config": {"fields": FIELDS}}],
    "topics": [{"name": name, "storage": "file"} for name in ("in", "counts", "hits")],
    "processors": [
        {
            "name": "function",
            "plugin": "minutes:per_minute",
            "source": {"topic": "in", "read": "offset"},
            "target": {"topic": "counts"},
            "config": {"input": {"format": "hit"}},
        },
        {
            "name": "builtin",
            "plugin": "aggregator",
            "source": {"topic": "in", "read": "offset"},
            "target": {"topic": "hits"},
            "config": {
                "input": {"format": "hit"},
                "output": {"format": "json"},
                "interval": "1m",
                "group_by": ["symbol"],
                "aggregates": {"count": "count()"},
                "event_time_field": "at",
                "watermark": "0s",
            },
        },
    ],
}


def with_fields(*fields: dict[str, str]) -> dict[str, Any]:
    changed = copy.deepcopy(CONFIG)
    changed["formats"][0]["config"]["fields"] = list(fields)
    return changed


def hit(minute: int, symbol: str = "a") -> bytes:
    return b'{"at":%d,"symbol":"%s","agent":"x"}' % (minute * 60_000, symbol.encode())


def stopped(driver: Any) -> None:
    driver.send_signal(signal.SIGTERM)
    assert driver.wait(120) == 0


def wait_state(run: Any, name: str, state: str) -> dict[str, Any]:
    deadline = time.monotonic() + 240
    while True:
        found: dict[str, Any] = run.processor(name)
        if found["state"] == state:
            return found
        assert time.monotonic() < deadline, found
        time.sleep(0.1)


def wait_read(run: Any, *names: str) -> None:
    """Until these processors have published all that was sent."""
    deadline = time.monotonic() + 300
    while any(run.processor(name)["behind"] or run.processor(name)["epoch"] < 0 for name in names):
        assert time.monotonic() < deadline, [run.processor(name) for name in names]
        time.sleep(0.1)


def test_state_survives_an_unused_field_and_a_change_that_touches_it_stops_the_processor(
    tmp_path: Path, make_engine: Any, spawn_driver: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "data0"  # where make_engine lets its config lie
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    (folder / "minutes.py").write_text(CODE)
    run = make_engine(CONFIG)
    driver = spawn_driver(run)
    run.send("in", [hit(1), hit(1)])
    wait_read(run, "function", "builtin")
    with pytest.raises(Exception, match="keeps a state"):
        run.client.command("processors.skip", {"name": "function"})
    stopped(driver)

    # A field that neither uses: minute 1 is still open, and closes.
    wider = with_fields(*FIELDS, {"name": "agent", "type": "string"})
    told = dict(lost_states(run.pipeline.model_validate(wider), DataDir(folder)))
    assert set(told) == {"function"}  # of a function only Spark's plan can tell
    assert "may not fit" in told["function"].message
    run.change(wider)
    driver = spawn_driver(run)
    run.send("in", [hit(3)])
    assert b'"count":2' in run.wait_for("counts", 1)[0]
    assert b'"count":2' in run.wait_for("hits", 1)[0]
    stopped(driver)

    # The key becomes a number: the state of neither fits, which the check says and the run does not pass over.
    other = with_fields({"name": "at", "type": "int64"}, {"name": "symbol", "type": "int64"})
    told = dict(lost_states(run.pipeline.model_validate(other), DataDir(folder)))
    assert set(told) == {"function", "builtin"}
    assert "does not fit" in told["builtin"].message
    assert "gauss processors drop-state builtin" in told["builtin"].hint
    run.change(other)
    driver = spawn_driver(run)
    for name in ("function", "builtin"):
        found = wait_state(run, name, "failed")
        assert "is not what it was in its last run" in found["detail"]
        assert "undo the change" in found["detail"]
        assert f"gauss processors drop-state {name}" in found["detail"]
    assert len(run.records("counts")) == len(run.records("hits")) == 1
    stopped(driver)

    # Undone: nothing was lost meanwhile.
    run.change(wider)
    spawn_driver(run)
    run.send("in", [hit(5)])
    assert b'"count":1' in run.wait_for("counts", 2)[1]
    assert b'"count":1' in run.wait_for("hits", 2)[1]
