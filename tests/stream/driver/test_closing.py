"""Plugin objects of Spark's tasks and of the check are closed once, also after an error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gauss.config.spec import Pipeline
from gauss.model.closing import close_process
from gauss.stream.driver import reading
from gauss.stream.driver.fitting import misfits
from gauss.stream.graph import build_graph
from helpers.closing_plugins import HERE, LOG, notes
from stream.driver.test_hosted import Hosted, config, numbers

pytestmark = pytest.mark.system


def noted(**given: Any) -> dict[str, Any]:
    made = config(f"{HERE}:CONVERT", output={"format": "noted"}, **given)
    made["formats"].append({"name": "noted", "plugin": f"{HERE}:FORMAT"})
    return made


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(LOG, str(tmp_path / "closed.log"))
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))  # of the engine
    return tmp_path / "closed.log"


@pytest.mark.parametrize("fails", [False, True])
def test_transforms_and_formats_of_a_task_are_closed_at_its_end(log: Path, tmp_path: Path, fails: bool) -> None:
    hosted = Hosted(tmp_path, noted(fails=fails))
    close_process()  # what the driver's side has built
    hosted.send(numbers(0, 10))
    for start in (0, 5):
        if fails:
            with pytest.raises(RuntimeError, match="as asked"):
                hosted.task((start, start + 5))
        else:
            hosted.task((start, start + 5))
        found = notes(log)
        assert set(found) == {"NotedConvert", "NotedFormat"}
        assert {count for counts in found.values() for count in counts} == {1}
    hosted.engine.close()
    reading.engine.cache_clear()


def test_the_check_closes_what_it_has_built(log: Path) -> None:
    made = Pipeline.model_validate(noted())
    assert list(misfits(made, build_graph(made))) == []
    found = notes(log)
    assert set(found) == {"NotedConvert", "NotedFormat"}
    assert {count for counts in found.values() for count in counts} == {1}
