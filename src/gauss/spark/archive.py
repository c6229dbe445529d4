"""The JVM's class archive, made once by a second, low-priority JVM during the first run.

A JVM writes it when it exits, which takes many seconds: too long for a pipeline that is being stopped.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from gauss.config.spec import SparkSection
from gauss.model.paths import DataDir
from gauss.spark.jvm import Java, Use

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

AFTER_SECONDS = 20.0
BATCHES = 5


def train(data_dir: DataDir, use: Use) -> subprocess.Popen[bytes] | None:
    """Starts the training JVM unless there is an archive; it runs in the session of this process, under its guard."""
    if Java.of(data_dir, use).archive.exists():
        return None
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("SPARK_", "PYSPARK_"))}
    return subprocess.Popen(
        [sys.executable, "-m", "gauss.spark.archive", str(data_dir.root), use.value],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def stop(trainer: subprocess.Popen[bytes]) -> None:
    """Kills the training JVM; an incomplete archive has another name."""
    trainer.kill()
    trainer.wait()


def main() -> int:
    """Runs a standing job, and a query unless the second argument is `nothing`, so that the classes are loaded; the JVM
    writes the archive when it exits."""
    os.nice(19)
    data_dir, use = DataDir(Path(sys.argv[1]).resolve()), Use(sys.argv[2]) if len(sys.argv) > 2 else Use.COLUMNS
    from gauss.spark import session

    started = session.start(SparkSection(), data_dir, training=True, use=use)
    started.context.parallelize(range(1), 1).mapPartitionsWithIndex(lambda _, rows: rows)._jrdd.collectAsync().get()
    if use is not Use.NOTHING:
        _query(started.session)
    started.stop(wait_seconds=300.0)
    return 0


def _query(spark: SparkSession) -> None:
    from gauss.spark.training import TrainingSource

    spark.dataSource.register(TrainingSource)
    with tempfile.TemporaryDirectory() as folder:
        spark.createDataFrame([], TrainingSource.SCHEMA).createOrReplaceTempView("input")
        rows = spark.readStream.format("training").load()
        rows.createOrReplaceTempView("input")
        made = spark.sql("SELECT n, n * 2 AS d, upper(s) AS u, x / 2 AS h, data FROM input WHERE n > 3 AND s <> 'x'")
        query = made.writeStream.format("training").option("checkpointLocation", folder).start()
        deadline = time.monotonic() + 60
        while (query.lastProgress or {"batchId": 0})["batchId"] < BATCHES and time.monotonic() < deadline:
            time.sleep(0.1)
        query.stop()


if __name__ == "__main__":
    sys.exit(main())
