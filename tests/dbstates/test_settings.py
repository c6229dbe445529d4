"""Settings by dotted paths."""

from __future__ import annotations

from typing import Any

import pytest

from gauss.dbstates.settings import at, effective, usable
from gauss.model.errors import ConfigError


def test_a_parameter_may_have_dots_in_its_name() -> None:
    found = effective({"parameters": {"work_mem": "7MB"}, "parameters.pg_stat_statements.track": "all"})
    assert found.parameters == {"pg_stat_statements.track": "all", "work_mem": "7MB"}
    assert at(found.model_dump(), "parameters.pg_stat_statements.track") == "all"


@pytest.mark.parametrize(
    ("stored", "part"),
    [
        ({"parameters.Port": "5"}, "set by the engine"),
        ({"parameters": {"data_directory": "/x"}}, "set by the engine"),
        ({"cache.capacity.lowWater": 0.95}, "at most highWater"),
        ({"no_such": 1}, "no_such"),
    ],
)
def test_a_wrong_setting_is_refused_and_an_engine_that_has_it_leaves_it_out(stored: dict[str, Any], part: str) -> None:
    with pytest.raises(ConfigError, match=part):
        effective(stored)
    good = {"instances.ttlSecs": 5}
    assert usable({**stored, **good}) == good


def test_water_marks_may_both_be_lower_than_their_defaults() -> None:
    stored = {"cache.capacity.highWater": 0.5, "cache.capacity.lowWater": 0.3}
    assert usable(stored) == stored
