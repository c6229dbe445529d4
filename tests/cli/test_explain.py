from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .conftest import Gauss


def test_all_processors_are_explained_with_the_number_of_queries(gauss: Gauss) -> None:
    gauss("new")
    done = gauss("explain")
    assert done.returncode == 0, done.stderr
    assert "  runs        an edge in the engine" in done.stdout
    assert done.stdout.rstrip().endswith(
        "1 processor on Spark in 0 standing tasks and 1 query; on this machine every task has a slot"
    )


def test_one_processor_as_json(gauss: Gauss) -> None:
    gauss("new")
    said = json.loads(gauss("explain", ".", "high", "--json").stdout)
    assert said["queries"] == ["high"]
    (found,) = said["processors"]
    assert found["runs"] in ("hosted", "columns")
    assert {"step", "what"} == set(found["plan"][0])


def test_unknown_processor_is_refused_with_those_there_are(gauss: Gauss) -> None:
    gauss("new")
    done = gauss("explain", ".", "hihg")
    assert done.returncode == 3
    assert 'no processor "hihg"' in done.stderr and "high" in done.stderr
