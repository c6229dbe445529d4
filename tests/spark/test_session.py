"""A Spark session that starts and stops in its own process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.spark

SCRIPT = """
import sys
import time
from pathlib import Path
from gauss.config.spec import SparkSection
from gauss.model.paths import DataDir
from gauss.spark import session

own = DataDir(Path(sys.argv[1]))
for folder in (own.run, own.logs, own.cache):
    folder.mkdir(parents=True)
spark = session.start(SparkSection(master="local[1]"), own)
client, process, late = spark.context._gateway._gateway_client, spark.process, []
send = client.send_command

def watched(command, *given, **named):
    late.extend([command] if process.stdin.closed else [])
    return send(command, *given, **named)

client.send_command = watched
for number in range(200_000):  # more than are released before the JVM has ended
    client.garbage_collect_object(f"o{10**9 + number}")
time.sleep(1.5)  # py4j looks for them once a second
spark.stop()
print(late[:1])
"""


def test_a_jvm_that_ends_is_not_told_which_objects_are_no_longer_referenced(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path / "data")], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0
    assert done.stdout.strip() == "[]" and done.stderr == ""
