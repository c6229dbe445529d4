"""What checkpoints cost, and what they save after a kill."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from typing import Any

from bench.connect.world import ROOT, World, run_child

NEVER = {"rows": 1 << 40, "bytes": 1 << 50, "secs": 1e6}
"""Thresholds that no sync reaches: its one checkpoint is at its end."""


def increment(world: World, rows: int | None) -> float:
    """Seconds of an incremental sync from nothing, with a checkpoint each `rows`. None: one at its end."""
    return world.copied(**_incremental(rows)).seconds


def _incremental(rows: int | None) -> dict[str, Any]:
    return {"mode": "incremental", "cursor": "id", "checkpoint": NEVER if rows is None else {**NEVER, "rows": rows}}


def read_twice(world: World, interval: int, after: int, ahead: int) -> int:
    """Kills a sync of which `after` checkpoints are committed when it has read `ahead` rows more, runs it again, and
    returns how many rows both runs have read."""
    world.clear()
    order = {"sync": world.sync(**_incremental(interval)), "events": True}
    with tempfile.TemporaryDirectory() as folder:
        read = _killed({**order, "folder": folder}, world.rows, after, ahead)
        again = run_child(order, folder)
    assert world.landed() == world.rows == world.scalar("SELECT count(DISTINCT id) FROM landing.people")
    return read + again.read - world.rows


def _killed(order: dict[str, Any], rows: int, after: int, ahead: int) -> int:
    """The rows that a sync has read when it is killed, of `rows` in all."""
    command = [sys.executable, "-m", "bench.connect.child"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(json.dumps(order).encode())
        process.stdin.close()
        checkpoints, read, limit = 0, 0, None
        for line in process.stdout:
            if not line.endswith(b"\n"):  # its last words
                break
            event = json.loads(line)
            checkpoints += event.get("event") == "checkpoint"
            if checkpoints == after and limit is None:
                limit = min(read + ahead, rows)
            read = event.get("records_read", read)
            if limit is not None and read >= limit:
                process.kill()  # what it has printed before is still read
    assert process.returncode < 0, f"the sync ended before it was killed, with {checkpoints} checkpoints"
    return read
