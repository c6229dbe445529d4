"""`gauss check` reports plans that Spark would refuse to run."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from helpers.run import GAUSS

pytestmark = pytest.mark.spark

HEAD = """
[[formats]]
name = "quote"
plugin = "json"
config = { fields = [{ name = "symbol", type = "string" }, { name = "bid", type = "double" }] }
[[topics]]
name = "raw"
storage = "memory"
[[topics]]
name = "out"
storage = "memory"
[[processors]]
name = "feed"
plugin = "tcp-source"
target = { topic = "raw" }
config = { port = 0, input = { framing = "newline" } }
"""

QUERIES = {
    "grouped": "SELECT symbol, count(*) AS n FROM input GROUP BY symbol",
    "distinct": "SELECT DISTINCT symbol FROM input",
    "total": "SELECT max(bid) AS high FROM input",
    "sorted": "SELECT symbol, bid FROM input ORDER BY bid",
    "numbered": "SELECT symbol, row_number() OVER (PARTITION BY symbol ORDER BY bid) AS n FROM input",
    "nested": "SELECT symbol FROM input WHERE bid IN (SELECT bid FROM input)",
    "misspelt": "SELECT symbol, bidd FROM input",
    "unparsed": "SELECT symbol, FROM input WHERE",
    "reflecting": "SELECT reflect('java.lang.System', 'getenv', 'HOME') AS home FROM input",
    "file": "SELECT symbol FROM input JOIN csv.`/etc/passwd` ON true",
    "fine": "SELECT symbol, bid * 2 AS twice FROM input WHERE bid > 1",
    "quoted": "SELECT symbol, 'ORDER BY x GROUP BY y' AS said FROM input",
}

FUNCTIONS = """
from gauss.contracts.function import dataframe_function
from pyspark.sql import functions as F

@dataframe_function()
def counted(records):
    return records.groupBy("symbol").count()

@dataframe_function()
def by_minute(records):
    timed = records.withColumn("at", F.timestamp_millis("_ts_ms")).withWatermark("at", "1 minute")
    return timed.groupBy(F.window("at", "1 minute"), "symbol").count().select("symbol", "count")

@dataframe_function()
def broken(records):
    return records.select(1 / 0)
"""


def sql(name: str, query: str, format: str = "quote") -> str:
    return f"""
[[processors]]
name = "{name}"
plugin = "sql"
source = {{ topic = "raw", read = "offset" }}
target = {{ topic = "out" }}
config = {{ input = {{ format = "{format}" }}, output = {{ format = "json" }}, query = "{query}" }}
"""


def function(name: str) -> str:
    return f"""
[[processors]]
name = "{name}"
plugin = "own:{name}"
source = {{ topic = "raw", read = "offset" }}
target = {{ topic = "out" }}
config = {{ input = {{ format = "quote" }}, output = {{ format = "json" }} }}
"""


@pytest.fixture(scope="module")
def verdict(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The result of one check of a pipeline with all of them, so that Spark starts once."""
    folder = tmp_path_factory.mktemp("plans")
    (folder / "own.py").write_text(FUNCTIONS)
    text = HEAD + "".join(sql(name, query) for name, query in QUERIES.items())
    text += sql("untyped", "SELECT a, sum(b) AS n FROM input GROUP BY a", "json")
    text += "".join(map(function, ("counted", "by_minute", "broken")))
    (folder / "gauss.toml").write_text(text)
    done = subprocess.run(
        [GAUSS, "check", "--json"], cwd=folder, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 1 and done.stderr == ""
    assert not (folder / ".gauss").exists()
    plans = [phase for phase in json.loads(done.stdout)["phases"] if phase["name"] == "plans"]
    return {phase["detail"].partition(":")[0]: phase for phase in plans}


@pytest.mark.parametrize(
    ("name", "message", "hint"),
    [
        ("grouped", "GROUP BY, DISTINCT", "use the window or aggregator processor"),
        ("distinct", "GROUP BY, DISTINCT", "dedup"),
        ("total", "an aggregate", "window or aggregator"),
        ("untyped", "GROUP BY, DISTINCT", "window or aggregator"),
        ("counted", "GROUP BY, DISTINCT", "withWatermark"),
        ("sorted", "ORDER BY", "where the result is read"),
        ("numbered", "OVER", "window or aggregator"),
        ("nested", "subquery", "join"),
        ("misspelt", 'no field "bidd"', 'did you mean "bid"?'),
        ("unparsed", "Syntax error", ""),
        ("reflecting", "the function reflect", "Java"),
        ("file", "the table or file csv.`/etc/passwd`", "join"),
        ("broken", "ZeroDivisionError", ""),
    ],
)
def test_what_a_stream_can_not_do_is_a_fault_with_the_way_out(
    verdict: dict[str, Any], name: str, message: str, hint: str
) -> None:
    assert verdict[name]["mark"] == "fail"
    assert message in verdict[name]["detail"] and hint in verdict[name]["hint"]


@pytest.mark.parametrize(("name", "state"), [("fine", "no state"), ("quoted", "no state"), ("by_minute", "state")])
def test_what_can_run_is_no_fault_and_says_whether_it_keeps_state(
    verdict: dict[str, Any], name: str, state: str
) -> None:
    assert verdict[name]["mark"] == "ok"
    assert verdict[name]["detail"] == f"{name}: Spark can run it; it keeps {state}"


def test_a_sound_query_passes_and_offline_does_not_ask_spark(tmp_path: Path) -> None:
    (tmp_path / "gauss.toml").write_text(HEAD + sql("fine", QUERIES["fine"]))
    done = subprocess.run([GAUSS, "check"], cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0 and "✓ plans       fine: Spark can run it; it keeps no state" in done.stdout
    (tmp_path / "gauss.toml").write_text(HEAD + sql("grouped", QUERIES["grouped"]))
    offline = [GAUSS, "check", "--offline"]
    done = subprocess.run(offline, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0 and "plans" not in done.stdout
