"""Spark's Python workers with the zygote and without it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

START = """
import os, signal, sys, psutil
from pathlib import Path
from gauss.config.spec import SparkSection
from gauss.model.paths import DataDir
from gauss.spark import session
from gauss.stream.driver.preload import PRELOAD

data_dir = DataDir(Path(sys.argv[1]))
started = session.start(SparkSection(master="local[2]", zygote=sys.argv[2] == "on"), data_dir, preload=PRELOAD)
spark = started.session

def lineage(batches):
    import os, psutil, pyarrow
    ancestors = [parent.pid for parent in psutil.Process().parents()]
    for _ in batches:
        yield pyarrow.RecordBatch.from_pydict({"pid": [os.getpid()], "ancestors": [ancestors]})

def workers():
    return spark.range(0, 2, 1, 1).mapInArrow(lineage, "pid long, ancestors array<long>").collect()

first = workers()[0]
"""
STOP = """
children = psutil.Process().children(recursive=True)
started.stop()
gone, alive = psutil.wait_procs(children, 60)
assert not alive, [p.cmdline() for p in alive]
print("all seen")
"""
WITH = """
zygote = session._zygotes[0]
assert list(first.ancestors)[1] == zygote.pid, "worker, daemon, zygote"
assert psutil.Process(first.pid).name() == "daemon"

# Without the zygote all goes on; and when Spark must start its daemon again, it gets an ordinary Python.
zygote.kill()
zygote.wait()
assert workers()[0].pid == first.pid
daemon = psutil.Process(first.pid).parent()
os.kill(daemon.pid, signal.SIGKILL)
os.kill(first.pid, signal.SIGKILL)
daemon.wait(60) if daemon.is_running() else None
again = workers()[0]
ordinary = psutil.Process(again.ancestors[0])
assert again.pid != first.pid and ordinary.parent().name() == "java", ordinary
"""
WITHOUT = """
assert not session._zygotes
daemon = psutil.Process(first.ancestors[0])
assert "gauss.spark.daemon" in daemon.cmdline() and daemon.parent().name() == "java", daemon
"""


@pytest.mark.spark
@pytest.mark.fault
@pytest.mark.parametrize(("zygote", "checks"), [("on", WITH), ("off", WITHOUT)])
def test_workers_are_forks_of_the_zygote_only_if_it_is_on(tmp_path: Path, zygote: str, checks: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", START + checks + STOP, str(tmp_path), zygote],
        capture_output=True,
        text=True,
        env=os.environ,
        timeout=400,
        check=False,
    )
    assert done.stdout.strip().endswith("all seen"), done.stderr[-3_000:]
