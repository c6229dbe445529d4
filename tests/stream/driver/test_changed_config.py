"""A processor's state when its config changes between two runs: it is kept, or its loss is reported beforehand."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from gauss.config.check import check
from helpers.run import GAUSS
from helpers.waiting import wait_until

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
CONFIG = """
[[formats]]
name = "hit"
plugin = "json"
config = {{ fields = [ {fields} ] }}

[[topics]]
name = "in"
storage = "file"

[[topics]]
name = "counts"
storage = "file"

[[topics]]
name = "hits"
storage = "file"

[[processors]]
name = "function"
plugin = "minutes:per_minute"
source = {{ topic = "in", read = "offset" }}
target = {{ topic = "counts" }}
config = {{ input = {{ format = "hit" }} }}

[[processors]]
name = "builtin"
plugin = "aggregator"
source = {{ topic = "in", read = "offset" }}
target = {{ topic = "hits" }}
config = {{
    input = {{ format = "hit" }}, output = {{ format = "json" }}, interval = "1m", group_by = ["symbol"],
    aggregates = {{ count = "count()" }}, event_time_field = "at", watermark = "0s",
}}
"""


def with_fields(**fields: str) -> str:
    return CONFIG.format(fields=", ".join(f'{{ name = "{name}", type = "{kind}" }}' for name, kind in fields.items()))


def judged(folder: Path, text: str) -> dict[str, Any]:
    """The config as `gauss check` reads it."""
    (folder / "pipeline.toml").write_text(text)
    found = check(folder / "pipeline.toml")
    assert found.pipeline is not None, found.faults
    return found.pipeline.model_dump(mode="json")


def told(folder: Path) -> dict[str, str]:
    """Processors whose state would be lost, with the message of `gauss check`."""
    done = subprocess.run(
        [GAUSS, "check", "pipeline.toml", "--json", "--data-dir", str(folder)],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    phases = [phase for phase in json.loads(done.stdout)["phases"] if phase["name"] == "state"]
    return {phase["detail"].partition(":")[0]: phase["detail"] + phase["hint"] for phase in phases}


def hit(minute: int, symbol: str = "a") -> bytes:
    return b'{"at":%d,"symbol":"%s","agent":"x"}' % (minute * 60_000, symbol.encode())


def stopped(driver: Any) -> None:
    driver.send_signal(signal.SIGTERM)
    assert driver.wait(120) == 0


def wait_state(run: Any, name: str, state: str) -> dict[str, Any]:
    wait_until(lambda: run.processor(name)["state"] == state, 240, lambda: run.processor(name))
    found: dict[str, Any] = run.processor(name)
    return found


def test_state_survives_an_unused_field_and_a_change_that_touches_it_stops_the_processor(
    tmp_path: Path, make_engine: Any, spawn_driver: Any
) -> None:
    folder = tmp_path / "data0"  # where make_engine writes its config
    folder.mkdir()
    (folder / "minutes.py").write_text(CODE)
    run = make_engine(judged(folder, with_fields(at="int64", symbol="string")))
    driver = spawn_driver(run)
    run.send("in", [hit(1), hit(1)])
    run.wait_read("function", "builtin")
    with pytest.raises(Exception, match="keeps a state"):
        run.client.command("processors.skip", {"name": "function"})
    stopped(driver)

    # A new field that neither uses: minute 1 stays open, and is closed.
    wider = judged(folder, with_fields(at="int64", symbol="string", agent="string"))
    assert told(folder) == {}
    run.change(wider)
    driver = spawn_driver(run)
    run.send("in", [hit(3)])
    assert b'"count":2' in run.wait_for("counts", 1)[0]
    assert b'"count":2' in run.wait_for("hits", 1)[0]
    stopped(driver)

    # The key becomes a number: neither state fits. The check reports it, and the run refuses to start the processors.
    other = judged(folder, with_fields(at="int64", symbol="int64"))
    lost = told(folder)
    assert set(lost) == {"function", "builtin"}
    assert all("does not fit" in said and f"drop-state {name}" in said for name, said in lost.items())
    run.change(other)
    driver = spawn_driver(run)
    for name in ("function", "builtin"):
        found = wait_state(run, name, "failed")
        assert "has changed since its last run" in found["detail"]
        assert "undo the change" in found["detail"]
        assert f"gauss processors drop-state {name}" in found["detail"]
    assert len(run.records("counts")) == len(run.records("hits")) == 1
    stopped(driver)

    # The change is undone: nothing was lost.
    run.change(wider)
    spawn_driver(run)
    run.send("in", [hit(5)])
    assert b'"count":1' in run.wait_for("counts", 2)[1]
    assert b'"count":1' in run.wait_for("hits", 2)[1]
