"""The Spark session of a sync."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gauss.config.spec import SparkSection
from gauss.config.syncs import SyncDef
from gauss.connect.spark.runner import SparkRunner
from gauss.spark import session


@pytest.mark.parametrize(("transform", "speculation"), [(None, "true"), ({"sql": "SELECT * FROM input"}, "false")])
def test_speculation_is_disabled_for_queries(
    transform: dict[str, str] | None, speculation: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    started: list[SparkSection] = []
    monkeypatch.setattr(session, "start", lambda section, *_, **__: started.append(section))
    stream: dict[str, Any] = {"name": "people", **({"transform": transform} if transform else {})}
    sync = {"name": "s", "source": {"connector": "postgres"}, "destination": {"connector": "postgres"}}
    definition = SyncDef.model_validate({**sync, "streams": [stream]})
    SparkRunner(definition, SparkSection(conf={"spark.speculation": "true"}), tmp_path, tmp_path)
    assert started[0].conf == {"spark.speculation": speculation}
