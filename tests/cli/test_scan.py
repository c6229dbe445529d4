"""`gauss scan` against a real run."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator

import pytest

from helpers.run import GAUSS, Run, free_port
from helpers.waiting import wait_until

pytestmark = pytest.mark.system

PIPELINE = """
[[formats]]
name = "quote"
plugin = "json"
config = { fields = [{ name = "symbol", type = "string" }, { name = "bid", type = "double" }] }

[[topics]]
name = "quotes"
storage = "memory"

[[topics]]
name = "prices"
storage = "memory"
storage_config = { mode = "table", format = "quote", key_field = "symbol", delete_when = ".bid == 0" }

[[topics]]
name = "opaque"
storage = "memory"

[[processors]]
name = "last"
plugin = "passthrough"
source = { topic = "quotes", read = "offset" }
target = { topic = "prices" }

[[processors]]
name = "feed"
plugin = "tcp-source"
target = { topic = "quotes" }
config = { port = PORT, input = { framing = "newline", format = "quote" } }
"""
QUOTES = "".join(f'{{"symbol": "S{n % 3}", "bid": {n}}}\n' for n in range(1, 10))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    started = Run(tmp_path_factory.mktemp("scan"), PIPELINE.replace("PORT", str(free_port()))).start()
    started.cli("send", "quotes", text=QUOTES)
    started.cli("send", "opaque", text=QUOTES)
    wait_until(lambda: started.topic("prices")["end"] == 9, what="the table")
    yield started
    started.end()


def test_rows_are_aligned_and_the_format_that_was_taken_is_said(run: Run) -> None:
    done = run.cli("scan", "quotes", "select(.bid > 7) | {symbol, twice: .bid * 2}")
    assert done.stdout.splitlines() == ["symbol  twice", "S2         16", "S0         18"]
    assert 'decoded by quote (from the processor "feed")' in done.stderr
    assert "2 rows" in done.stderr


def test_json_gives_one_row_per_line_and_nothing_else(run: Run) -> None:
    done = run.cli("scan", "prices", "{symbol, bid}", "--json")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert rows == [{"symbol": f"S{n}", "bid": bid} for n, bid in enumerate((9.0, 7.0, 8.0))]
    assert done.stderr == ""


def test_format_can_be_named_where_nothing_says_it(run: Run) -> None:
    refused = run.cli("scan", "opaque", "select(.bid > 7)", check=False)
    assert refused.returncode == 1 and "name their format" in refused.stderr
    assert len(run.cli("scan", "opaque", "select(.bid > 7)", "--format", "json", "--json").stdout.splitlines()) == 2
    unknown = run.cli("scan", "opaque", "{bid}", "--format", "jsn", check=False)
    assert unknown.returncode == 1 and "json" in unknown.stderr


def test_limit_ends_the_scan(run: Run) -> None:
    assert len(run.cli("scan", "quotes", "-n", "4", "--json").stdout.splitlines()) == 4


def test_explain_says_what_would_be_done_and_does_nothing(run: Run) -> None:
    text = run.cli("scan", "prices", 'prefix("S") | select(.bid > 7) | {bid}', "--explain").stdout
    for part in (
        "snapshot, pinned at version 9",
        "prefix: keys that begin with 'S'",
        "keeps select(.bid > 7)",
        "makes {bid}",
        "Arrow columns",
        "quote (the topic's own)",
        "bid (number)",
        "the keys: found by binary search in sorted runs",
        "per candidate",
    ):
        assert part in text
    plan = json.loads(run.cli("scan", "quotes", "agg(n: count)", "--explain", "--json").stdout)
    assert plan["columns"] == ["n"] and plan["candidates"] == 9 and plan["decodes"] == {}
    assert plan["pushed_down"] == ["the count: records are not read"]


@pytest.mark.parametrize(
    ("program", "caret"),
    [("select(.bid > ) | {bid}", 14), ("select(.bdi > 1)", 7), ("squeeze(1)", 0), ("{symbol, x: .symbol * 2}", 12)],
)
def test_fault_of_the_program_is_pointed_at(run: Run, program: str, caret: int) -> None:
    done = run.cli("scan", "quotes", program, check=False)
    assert done.returncode == 1
    lines = done.stderr.splitlines()
    assert f"  {program}" in lines and f"  {' ' * caret}^" in lines, done.stderr


def test_live_goes_on_with_what_comes(run: Run) -> None:
    args = [GAUSS, "scan", "opaque", "select(.bid > 1000) | {bid}", "--live", "--limit", "2", "--format", "json"]
    scan = subprocess.Popen(
        [*args, "--json", "--data-dir", str(run.data_dir)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    wait_until(lambda: run.api("/api/scans")["scans"], what="the scan is up")
    run.cli("send", "opaque", text='{"bid": 1}\n{"bid": 2000}\n')
    run.cli("send", "opaque", text='{"bid": 3000}\n')
    out, _ = scan.communicate(timeout=60)
    assert [json.loads(line) for line in out.splitlines()] == [{"bid": 2000.0}, {"bid": 3000.0}]
    wait_until(lambda: not run.api("/api/scans")["scans"], what="the cursor is closed")


def test_tap_decides_where_in_the_engine_and_leaves_out_what_it_cannot_read(run: Run) -> None:
    run.cli("send", "opaque", text='no json\n[1]\n{"bid": -5}\n')
    done = run.cli("tap", "opaque", "--where", ".bid < 0", "--start", "earliest", "--limit", "1", "--for", "120s")
    assert done.stdout == '{"bid": -5}\n'
    wrong = run.cli("tap", "opaque", "--where", ".bid <", check=False)
    assert wrong.returncode == 1 and "      ^" in wrong.stderr
