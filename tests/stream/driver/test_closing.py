"""Plugin objects of Spark tasks and of the check are closed once, also after an error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gauss.config.spec import Pipeline
from gauss.stream.driver.planning.format_fit import misfits
from gauss.stream.graph import build_graph
from helpers.closing_plugins import HERE, LOG, notes
from helpers.standing import Hosted, hosted_config, numbers

pytestmark = pytest.mark.system


def noted(**given: Any) -> dict[str, Any]:
    made = hosted_config(f"{HERE}:CONVERT", output={"format": "noted"}, **given)
    made["formats"].append({"name": "noted", "plugin": f"{HERE}:FORMAT"})
    return made


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(LOG, str(tmp_path / "closed.log"))
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))  # for the engine process
    return tmp_path / "closed.log"


@pytest.mark.parametrize("fails", [False, True])
def test_transforms_and_formats_of_a_task_are_closed_at_its_end(log: Path, tmp_path: Path, fails: bool) -> None:
    hosted = Hosted(tmp_path, noted(fails=fails))
    built = 0
    for start in (0, 5):
        hosted.send(numbers(start, start + 5))
        if fails:
            with pytest.raises(RuntimeError, match="as asked"):
                hosted.task.epoch()
        else:
            hosted.task.epoch()
        hosted.task.close()
        found = notes(log)
        assert set(found) == {"NotedConvert", "NotedFormat"}
        assert {count for counts in found.values() for count in counts} == {1}
        assert len(found["NotedConvert"]) > built
        built = len(found["NotedConvert"])
        hosted.task = hosted.new_task()
    hosted.close()


def test_the_check_closes_what_it_has_built(log: Path) -> None:
    made = Pipeline.model_validate(noted())
    assert list(misfits(made, build_graph(made))) == []
    found = notes(log)
    assert set(found) == {"NotedConvert", "NotedFormat"}
    assert {count for counts in found.values() for count in counts} == {1}
