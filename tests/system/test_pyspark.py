"""`format("gauss")` in a plain PySpark session: the example of the documentation, and errors."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from helpers.feeds import send
from helpers.run import Run, free_port
from helpers.waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.timeout(800)]

PAGE = Path(__file__).parents[2] / "docs" / "pyspark.md"
QUOTES = [("BTC", 101.5), ("ETH", 50.0), ("BTC", 99.0)]
FAULTS = """
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[1]").getOrCreate()
spark.sparkContext.setLogLevel("OFF")
def told(name, job):
    try:
        job()
        print(name, "passed")
    except Exception as error:
        print(name, " ".join(str(error).split()))
read = lambda topic: spark.read.format("gauss").option("data_dir", ".gauss").option("topic", topic)
told("unknown", lambda: read("quotes").schema("symbol string").load().collect())
told("misspelt", lambda: read("quotes").option("format", "quote").schema("symbl string").load().collect())
told("undeclared", lambda: read("quotes").option("format", "json").load().collect())
told("tables", lambda: read("bids").option("start", "3").load().collect())
told("columns", lambda: read("bids").schema("nonsense string").load().collect())
told("narrow", lambda: print(read("bids").schema("symbol string").load().distinct().count(), "symbols"))
told("stream", lambda: spark.readStream.format("gauss").option("topic", "bids").load().writeStream.format("noop")
     .trigger(availableNow=True).start().awaitTermination())
"""


def blocks(language: str) -> str:
    return "\n".join(re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(), re.DOTALL))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    feed = free_port()
    made = Run(tmp_path_factory.mktemp("pyspark"), blocks("toml").replace("9100", str(feed)))
    try:
        made.start()
        send(feed, b"".join(json.dumps({"symbol": s, "bid": b}).encode() + b"\n" for s, b in QUOTES))
        wait_until(
            lambda: made.cli("query", "bids").stdout.count("\n") == len(QUOTES), 120, "the rows are in the table"
        )
        yield made
    finally:
        made.end()


def plain(run: Run, program: str) -> str:
    """The output of a program that runs with plain PySpark in the run's folder."""
    # As in an activated environment: Spark starts its workers with the `python3` of PATH.
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    environment.pop("PYSPARK_PYTHON", None)
    command = [sys.executable, "-c", program]
    done = subprocess.run(
        command, cwd=run.folder, env=environment, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_example_of_the_page_runs_in_a_plain_session(run: Run) -> None:
    shown = plain(run, blocks("python"))
    tables = [text for text in re.split(r"\n\n", shown) if "|" in text]
    records, high, highest, rows, counted = tables
    assert "data" in records and records.count("[7B 22") == len(QUOTES)
    assert "BTC|101.5" in high.replace(" ", "") and "ETH" not in high
    assert "BTC|101.5" in highest.replace(" ", "") and "ETH|50.0" in highest.replace(" ", "")
    assert re.findall(r"\b(\w+) *\| *([\d.]+)", rows) and "_offset" not in rows
    found = [float(value) for value in re.findall(r"\b\d+\.\d+\b", rows)]
    assert found == [50.0, 99.0, 101.5]
    assert "|3|" in counted.replace(" ", "")
    assert "101.5" in run.cli("query", "high").stdout


def test_what_can_not_be_read_is_said_in_a_sentence(run: Run) -> None:
    told = dict(line.split(" ", 1) for line in plain(run, FAULTS).splitlines() if " " in line)
    assert 'topic "quotes" has no column symbol' in told["unknown"]
    assert 'topic "quotes" has no column symbl' in told["misspelt"]
    assert "the format declares no fields" in told["undeclared"]
    assert 'topic "bids" is a table: option start does not apply' in told["tables"]
    assert 'topic "bids" has no column nonsense' in told["columns"]
    assert told["narrow"] == "passed" and told["2"] == "symbols"
    assert "is a table and can't be read as a stream" in told["stream"]
