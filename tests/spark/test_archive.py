"""The second JVM, which writes the class archive while a run is active."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from gauss.model.paths import DataDir
from gauss.spark import archive
from gauss.spark.jvm import Java, Use
from helpers.waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.fault]


def test_a_stop_ends_the_training_jvm_before_it_writes_the_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GAUSS_CACHE_DIR", str(tmp_path / "cache"))
    paths = DataDir(tmp_path / "data")
    paths.logs.mkdir(parents=True)
    trainer = archive.train(paths, Use.COLUMNS)
    assert trainer is not None

    def with_gateway() -> list[psutil.Process]:
        found = psutil.Process(trainer.pid).children(recursive=True)
        try:
            return [each for each in found if each.name() == "java" and each.net_connections("inet")]
        except psutil.NoSuchProcess:  # Spark's scripts start other processes first
            return []

    [java] = wait_until(with_gateway, 180, "Java is up")
    archive.stop(trainer)
    java.terminate()  # as the guard does with leftovers of the driver's session
    java.wait(60)
    assert not Java.of(paths).archive.with_suffix(".new").exists()
