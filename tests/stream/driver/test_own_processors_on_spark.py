"""The documentation page about custom processors, executed as written."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from gauss.config.check import check

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

PAGE = Path(__file__).parents[3] / "docs" / "own-processors.md"


def test_functions_beside_the_config_run_on_spark(tmp_path: Path, make_engine: Any, spawn_driver: Any) -> None:
    code, config = (re.findall(rf"```{kind}\n(.*?)```", PAGE.read_text(), re.DOTALL)[0] for kind in ("python", "toml"))
    folder = tmp_path / "data0"  # where make_engine writes its config
    folder.mkdir()
    (folder / "spreads.py").write_text(code)
    (folder / "pipeline.toml").write_text(config)
    checked = check(folder / "pipeline.toml")
    assert checked.pipeline is not None, checked.faults

    run = make_engine(checked.pipeline.model_dump(mode="json"))
    spawn_driver(run)
    run.send("quotes", [b'{"symbol":"BTC","bid":1.0,"ask":1.5}', b'{"symbol":"ETH","bid":1.0,"ask":4.0}', b"bad"])
    assert [json.loads(record) for record in run.wait_for("mids", 2, 300)] == [
        {"symbol": "BTC", "bid": 1.0, "ask": 1.5, "mid": 1.2},
        {"symbol": "ETH", "bid": 1.0, "ask": 4.0, "mid": 2.5},
    ]
    assert [json.loads(record) for record in run.wait_for("wide", 1)] == [
        {"symbol": "ETH", "bid": 1.0, "ask": 4.0, "spread": 3.0}
    ]
    assert len(run.wait_for("_dead", 2)) == 2
