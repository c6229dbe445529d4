"""Spark's own processes, forked from the zygote."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import os, signal, sys, psutil
from pathlib import Path
from gauss.config.spec import SparkSection
from gauss.model.paths import DataDir
from gauss.stream.driver import session

data_dir = DataDir(Path(sys.argv[1]))
started = session.start(SparkSection(master="local[2]"), data_dir)
spark = started.session

def lineage(batches):
    import os, psutil, pyarrow
    ancestors = [parent.pid for parent in psutil.Process().parents()]
    for _ in batches:
        yield pyarrow.RecordBatch.from_pydict({"pid": [os.getpid()], "ancestors": [ancestors]})

def workers():
    return spark.range(0, 2, 1, 1).mapInArrow(lineage, "pid long, ancestors array<long>").collect()

first = workers()[0]
zygote = session._zygotes[0]
assert list(first.ancestors)[1] == zygote.pid, "worker, daemon, zygote"
assert "gauss.stream.driver.daemon" in psutil.Process(first.pid).cmdline()

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
children = psutil.Process().children(recursive=True)
started.stop()
gone, alive = psutil.wait_procs(children, 60)
assert not alive, [p.cmdline() for p in alive]
print("all seen")
"""


@pytest.mark.spark
@pytest.mark.fault
def test_spark_forks_its_workers_from_the_zygote_and_lives_without_it(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path)],
        capture_output=True,
        text=True,
        env=os.environ,
        timeout=400,
        check=False,
    )
    assert done.stdout.strip().endswith("all seen"), done.stderr[-3_000:]
