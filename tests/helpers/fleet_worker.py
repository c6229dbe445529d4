"""`gauss worker` without Spark: ranges are inserted in this process. `python -m helpers.fleet_worker SKEW OPTIONS`.

`SKEW`: seconds by which the wall clock of this process is wrong.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import typer

import gauss.fleet.worker.process
from gauss.cli import worker
from gauss.fleet.logs import log_as_json
from gauss.fleet.worker.ends import Clusters
from helpers.fleet import LocalRunner

_now, _now_ns = time.time, time.time_ns


@contextmanager
def _without_spark(_data_dir: Path) -> Iterator[tuple[LocalRunner, Clusters]]:
    log_as_json()
    yield LocalRunner(), Clusters()


if __name__ == "__main__":
    skew = int(sys.argv.pop(1))
    time.time = lambda: _now() + skew
    time.time_ns = lambda: _now_ns() + skew * 10**9
    gauss.fleet.worker.process.start_spark = _without_spark  # type: ignore[assignment]
    typer.run(worker.command)
