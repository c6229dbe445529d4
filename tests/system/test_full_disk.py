"""A full disk: every transform waits, reports it, and continues by itself when there is space."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from helpers.disks import fill, small_file_system
from helpers.run import Run
from helpers.waiting import wait_until

Make = Callable[[str], Run]
pytestmark = [pytest.mark.spark, pytest.mark.fault, pytest.mark.timeout(900)]

TOO_OFTEN = 5
"""Number of failures at one epoch after which any other error would be final."""
TRANSFORMS = {
    "pump": 'plugin = "passthrough"',
    "hosted": 'plugin = "filter"\nconfig = { input = { format = "number" }, where = ".n >= 0" }',
    "columns": 'plugin = "sql"\nconfig = { input = { format = "number" }, query = "SELECT n, text FROM input" }',
}
PIPELINE = """
[engine]
min_free_bytes = 0

[[formats]]
name = "number"
plugin = "json"
config = { fields = [{ name = "n", type = "int64" }, { name = "text", type = "string" }] }

[[topics]]
name = "raw"
storage = "memory"
""" + "".join(
    f"""
[[topics]]
name = "{name}.out"
storage = "file"

[[processors]]
name = "{name}"
{plugin}
source = {{ topic = "raw", read = "offset" }}
target = {{ topic = "{name}.out" }}
"""
    for name, plugin in TRANSFORMS.items()
)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 900 MiB, since Spark stores its class archive there."""
    with small_file_system(tmp_path / "small", "900m") as folder:
        yield folder


def record(n: int) -> str:
    """A record that is too long for the free space of a page that a target has already."""
    return f'{{"n":{n},"text":"{"x" * 3000}"}}\n'


def test_transforms_go_on_by_themselves_after_a_full_disk(gauss: Make, small_disk: Path) -> None:
    run = gauss(PIPELINE)
    run.data_dir = small_disk / ".gauss"
    run.start()

    def shown() -> dict[str, dict[str, Any]]:
        return {row["name"]: row for row in run.api("/api/processors")["processors"]}

    def has_all(count: int) -> bool:
        return all(run.topic(f"{name}.out")["records"] == count for name in TRANSFORMS)

    run.cli("send", "raw", text=record(0))
    wait_until(lambda: has_all(1), 240, "flow")
    ballast = small_disk / "ballast"
    fill(ballast)
    run.cli("send", "raw", text="".join(map(record, range(1, 100))))

    def all_tried() -> bool:
        fill(ballast)  # space that was freed meanwhile
        rows = shown()
        assert all(rows[name]["state"] != "failed" for name in TRANSFORMS), rows
        tried.update(name for name in TRANSFORMS if rows[name]["failures"] >= TOO_OFTEN)
        return len(tried) == len(TRANSFORMS)

    tried: set[str] = set()
    try:
        wait_until(all_tried, 300)
    except AssertionError as error:
        raise AssertionError(f"only {tried} have failed often: {shown()}") from error
    health = run.api("/api/health")
    assert health["status"] == "degraded"
    assert all(any(name in reason for reason in health["reasons"]) for name in TRANSFORMS), health
    ballast.unlink()
    wait_until(lambda: has_all(100), 240, "all records, once")
    run.wait_ready()
    assert has_all(100)
