"""The JVM's class archive, made once by a second, low-priority JVM while the first run is under way.

Writing it takes a JVM many seconds at its end, which a pipeline that is being stopped does not have.
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
from gauss.stream.driver.jvm import Java, Use

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

AFTER_SECONDS = 20.0
BATCHES = 5


def train(data_dir: DataDir, use: Use) -> subprocess.Popen[bytes] | None:
    """Starts the trainer unless there is an archive already; it lives in this process's session, under its guard."""
    if Java.of(data_dir, use).archive.exists():
        return None
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("SPARK_", "PYSPARK_"))}
    return subprocess.Popen(
        [sys.executable, "-m", "gauss.stream.driver.archive", str(data_dir.root), use.value],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def stop(trainer: subprocess.Popen[bytes]) -> None:
    """Ends it at once; a half-written archive has another name."""
    trainer.kill()
    trainer.wait()


def main() -> int:
    """Does small work as the driver would, so that its classes are loaded, and lets the JVM write the archive. Which
    work: `nothing` beside a standing job, or (left out: `columns`) a query too."""
    os.nice(19)
    data_dir, use = DataDir(Path(sys.argv[1]).resolve()), Use(sys.argv[2]) if len(sys.argv) > 2 else Use.COLUMNS
    from gauss.stream.driver import session

    started = session.start(SparkSection(), data_dir, training=True, use=use)
    started.context.parallelize(range(1), 1).mapPartitionsWithIndex(lambda _, rows: rows)._jrdd.collectAsync().get()
    if use is not Use.NOTHING:
        _query(started.session)
    started.stop(wait_seconds=300.0)
    return 0


def _query(spark: SparkSession) -> None:
    from gauss.stream.driver.training import TrainingSource

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
