"""A damaged data directory under a whole run: the damage is reported, damaged records are never delivered, and `gauss
repair` mends it."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

from helpers.feeds import Collector, send
from helpers.run import GAUSS, Run, free_port
from helpers.waiting import wait_until

Make = Callable[[str], Run]
LINES = [b"record %06d" % number for number in range(3000)]


def pipeline(feed: int, out: int) -> str:
    """TCP → memory → passthrough → a file topic of small segments → TCP."""
    return f"""
[[topics]]
name = "raw"
storage = "memory"
storage_config = {{ storage_size = 10000 }}

[[topics]]
name = "kept"
storage = "file"
storage_config = {{ framing = "newline", segment_bytes = 4096 }}

[[processors]]
name = "in"
plugin = "tcp-source"
target = {{ topic = "raw" }}
config = {{ port = {feed}, input = {{ framing = "newline", delimiter = "\\n" }} }}

[[processors]]
name = "pass"
plugin = "passthrough"
source = {{ topic = "raw", read = "offset" }}
target = {{ topic = "kept" }}

[[processors]]
name = "out"
plugin = "tcp-sink"
source = {{ topic = "kept", read = "offset" }}
config = {{ port = {out}, start = "earliest", output = {{ framing = "newline", delimiter = "\\n" }} }}
"""


def filled(gauss: Make) -> tuple[Run, int]:
    feed, out = free_port(), free_port()
    run = gauss(pipeline(feed, out)).start()
    for first in range(0, len(LINES), 300):
        send(feed, b"".join(line + b"\n" for line in LINES[first : first + 300]))
        wait_until(lambda end=first + 300: run.topic("kept")["end"] == end, 60, "records in kept")  # type: ignore[misc]
    assert run.stop() == 0
    return run, out


def flip(path: Path, position: int) -> None:
    raw = bytearray(path.read_bytes())
    raw[position] ^= 0x04
    path.write_bytes(raw)


def command(*words: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([GAUSS, *map(str, words)], capture_output=True, text=True, check=False, timeout=180)


def test_flipped_journal_byte_stops_the_start_and_repair_brings_every_record_back(gauss: Make) -> None:
    run, _ = filled(gauss)
    flip(run.data_dir / "journal" / "commits", 40)
    run.start(ready=False)
    assert run.process is not None and run.process.wait(120) == 3
    said = run.output.read_text()
    assert "commits is damaged" in said and "kept (3,000 records)" in said and "gauss repair" in said
    assert command("verify", run.data_dir).returncode == 1
    mended = command("repair", run.data_dir, "--choose", "keep", "--yes")
    assert mended.returncode == 0, mended.stdout + mended.stderr
    assert command("verify", run.data_dir).returncode == 0
    run.start()
    assert run.topic("kept")["records"] == len(LINES)
    assert run.topic("kept")["set_aside"] == 0


def test_damaged_block_of_a_closed_segment_is_not_sent_and_is_told(gauss: Make) -> None:
    run, out = filled(gauss)
    closed = sorted((run.data_dir / "topics" / "kept").glob("*.log"))[1]
    flip(closed, closed.read_bytes().index(b"record", 100))
    run.start()
    collector = Collector(out)
    health = wait_until(lambda: (told := run.api("/api/health"))["status"] == "degraded" and told, 60, "degraded")
    assert any("damaged on disk" in reason for reason in health["reasons"]), health
    assert 0 < run.topic("kept")["damaged"] < len(LINES)
    got = list(collector.lines)
    collector.close()
    assert got and set(got) < set(LINES)  # the intact records before the damage, and nothing else
    assert run.stop() == 0
    mended = command("repair", run.data_dir, "--choose", "drop", "--yes")
    assert mended.returncode == 0, mended.stdout + mended.stderr
    run.start()
    collector = Collector(out)
    wait_until(lambda: LINES[-1] in list(collector.lines), 60, "the last record")
    got = list(collector.lines)
    collector.close()
    assert set(got) < set(LINES) and len(got) > len(LINES) // 2
    assert run.api("/api/health")["status"] == "ready" and run.topic("kept")["damaged"] == 0
