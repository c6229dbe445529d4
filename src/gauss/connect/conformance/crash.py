"""Syncs that are killed at points of their work, and continued."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from gauss.connect.conformance.bench import Bench
from gauss.connect.conformance.case import CaseFailed, NotApplicable, check
from gauss.connect.conformance.kit_sync import KitSync

LONGEST_DELAY_S = 0.02


class Children:
    """Processes for syncs. The next one starts while the current one works, since it takes a second."""

    def __init__(self) -> None:
        self._spare: subprocess.Popen[str] | None = self._spawn()

    @staticmethod
    def _spawn() -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "gauss.connect.conformance.child"]
        return subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )

    def run(self, sync: KitSync, base_dir: Path, call: int, delay_s: float, *, last: bool, timeout_s: float) -> bool:
        """Runs a sync that dies at a call; returns whether it died. Fails the case if it fails otherwise."""
        process = self._spare or self._spawn()
        self._spare = None if last else self._spawn()
        job = {
            "sync": sync.definition.model_dump(mode="json", exclude_none=True),
            "base_dir": str(base_dir),
            "data_dir": str(sync.data_dir),
            "call": call,
            "delay_s": delay_s,
        }
        try:
            _, errors = process.communicate(json.dumps(job) + "\n", timeout=timeout_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise CaseFailed(f"the run did not end within {timeout_s:g} s") from None
        if process.returncode in (0, -signal.SIGKILL):
            return process.returncode != 0
        raise CaseFailed(f"the run failed: {errors.strip().rpartition(chr(10))[2]}")

    def close(self) -> None:
        if self._spare is not None:
            self._spare.communicate("")
            self._spare = None


def kill_runs(bench: Bench, calls: int, make: Callable[[], KitSync], after: Callable[[], None], kills: int) -> int:
    """Kills runs of a sync at random calls, and looks at the destination after each. `calls`: of a whole run, so that
    each gets through a part of it. Returns how many were killed."""
    if not kills:
        raise NotApplicable("kills = 0")
    children, killed = Children(), 0
    try:
        for number in range(kills):
            point = bench.random.randint(1, max(2, calls // (kills + 1)))
            # The first without: a fast connector would be done before it is killed.
            delay = bench.random.choice([0.0, LONGEST_DELAY_S * bench.random.random()]) if number else 0.0
            last = number == kills - 1
            killed += children.run(
                make(), bench.target.base_dir, point, delay, last=last, timeout_s=bench.settings.timeout_secs
            )
            after()
    finally:
        children.close()
    check(killed, "no run could be killed: all ended before")
    return killed
