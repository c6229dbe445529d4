"""Guarantees of paths over topics that tasks write without transactions."""

from __future__ import annotations

from typing import Any

import pytest

from gauss.config.spec import Pipeline
from gauss.stream.graph import build_graph
from gauss.stream.guarantee import guarantees

MAY_REPEAT = "at least once: made: after a crash its last records may be written again (transactions = false)"


def pipeline(**made: Any) -> Pipeline:
    def kafka(name: str, **more: Any) -> dict[str, Any]:
        return {"name": name, "storage": "kafka", "storage_config": {"brokers": ["127.0.0.1:9092"], **more}}

    def copy(name: str, source: str, target: str) -> dict[str, Any]:
        read = {"topic": source, "read": "offset"}
        return {"name": name, "plugin": "passthrough", "source": read, "target": {"topic": target}}

    return Pipeline.model_validate(
        {
            "topics": [kafka("given", transactions=False), kafka("made", **made), kafka("after")],
            "processors": [copy("first", "given", "made"), copy("second", "made", "after")],
        }
    )


@pytest.mark.parametrize(("transactions", "said"), [(True, "exactly once"), (False, MAY_REPEAT)])
def test_path_over_a_topic_that_tasks_write_without_transactions_is_at_least_once(
    transactions: bool, said: str
) -> None:
    """`given` has none either, but no task writes it."""
    [after] = guarantees(build_graph(pipeline(transactions=transactions)))
    assert (after.end, str(after)) == ("after", said)
