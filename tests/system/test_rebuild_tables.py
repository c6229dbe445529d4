"""`gauss processors rebuild` of processors that fill tables: every row is written again, once, whatever is killed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from helpers.embedded import ask
from helpers.run import DRIVER, Run
from helpers.waiting import wait_until

Make = Callable[[str], Run]
pytestmark = [pytest.mark.spark, pytest.mark.fault, pytest.mark.timeout(900)]

RECORDS = 2_000
SYSTEMS = ("clickhouse", "postgres")
PIPELINE = """
[spark]
master = "local[2]"

[[formats]]
name = "numbers"
plugin = "json"
config = { fields = [{ name = "n", type = "int64" }] }

[[topics]]
name = "raw"
storage = "file"
""" + "".join(
    f"""
[[topics]]
name = "{system}"
storage = "{system}"
storage_config = {{ format = "numbers", flush_interval = "200ms" }}

[[processors]]
name = "fill-{system}"
plugin = "filter"
source = {{ topic = "raw", read = "offset" }}
target = {{ topic = "{system}" }}
config = {{ input = {{ format = "json" }}, where = ".n >= 0" }}
"""
    for system in SYSTEMS
)


def wait_rows(run: Run, system: str, records: int, after: int = -1) -> int:
    """The smallest offset in a table, once it is above `after` and the table holds each number once."""
    query = f"SELECT count(*), count(DISTINCT n), min(n), max(n), min(_offset) FROM {system}"

    def whole() -> Any:
        found = ask(run.data_dir, system, query)
        assert found is None or found[0] <= records, (system, found)
        return found if found is not None and found[0] == records and found[4] > after else None

    found = wait_until(whole, 300, f"{records} rows in {system}")
    assert found[:4] == (records, records, 0, records - 1)
    return int(found[4])


def sent(run: Run, start: int, stop: int) -> None:
    run.cli("send", "raw", text="".join(f'{{"n":{n}}}\n' for n in range(start, stop)))


def test_a_rebuilt_table_holds_each_row_once_though_driver_and_engine_are_killed(gauss: Make) -> None:
    run = gauss(PIPELINE).start()
    sent(run, 0, RECORDS)
    first = {system: wait_rows(run, system, RECORDS) for system in SYSTEMS}
    # First without a kill, then with kills while rows are deleted and written: every row is replaced.
    for victim in ("", DRIVER, "gauss.stream.engine"):
        for system in SYSTEMS:
            run.cli("processors", "rebuild", f"fill-{system}", "--yes")
        if victim:
            run.kill(victim)
        first = {system: wait_rows(run, system, RECORDS, after=first[system]) for system in SYSTEMS}
    run.wait_ready()
    sent(run, RECORDS, RECORDS + 10)
    for system in SYSTEMS:
        wait_rows(run, system, RECORDS + 10)

    # Rows of another writer are not deleted: the rebuild is refused and changes nothing.
    for system in SYSTEMS:
        assert ask(run.data_dir, system, f"INSERT INTO {system} (n, _inc, _offset) VALUES (-1, 5, 0)") is not None
        refused = run.cli("processors", "rebuild", f"fill-{system}", "--yes", check=False)
        assert refused.returncode != 0
        assert "1 of its rows were not written by this topic" in refused.stderr + refused.stdout
        assert ask(run.data_dir, system, f"SELECT count(*) FROM {system}") == (RECORDS + 11,)
