"""What tasks of a streaming query stage, and what its commit and abort do with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from pyspark import TaskContext

from gauss.clients.engine.positions import At
from gauss.clients.engine.task_messages import Claim
from gauss.stream.driver.planning.writes import WriteRows
from gauss.stream.driver.queries.sink import BATCH_ID, StreamWriter, TaskStages
from gauss.stream.driver.tasks import reading
from helpers.standing import hosted_config

pytestmark = pytest.mark.system


class Writing:
    """A claimed processor, and tasks over its partitions."""

    def __init__(self, run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        self.run, self._monkeypatch = run, monkeypatch
        claimed = run.client.claim(Claim("p", "c", ["in"], ["out"]))
        run.send("in", [b"x"] * 10)
        self.ends = {**claimed.start, "in": At(claimed.start["in"].inc, 10)}
        self.writer = StreamWriter(
            WriteRows(
                str(run.data_dir.flight_json),
                "p",
                claimed.generation,
                "out",
                checkpoint="c",
                checkpoint_dir="",
                series="c",
            )
        )

    def task(self, partition: int, *records: bytes) -> TaskStages:
        class Context:
            def partitionId(self) -> int:
                return partition

            def getLocalProperty(self, name: str) -> str | None:
                return "0" if name == BATCH_ID else None

        self._monkeypatch.setattr(TaskContext, "get", Context)
        batch = pa.record_batch({"_ts_ms": [1] * len(records), "_data": pa.array(records, pa.binary())})
        done = self.writer.write(iter([batch]))
        assert isinstance(done, TaskStages)
        return done

    def records(self) -> list[bytes]:
        found: list[bytes] = self.run.records("out")
        return found


@pytest.fixture
def writing(make_engine: Callable[[dict[str, Any]], Any], monkeypatch: pytest.MonkeyPatch) -> Any:
    yield Writing(make_engine(hosted_config()), monkeypatch)
    reading.engine.cache_clear()


def test_stages_are_published_in_the_order_of_partitions_whatever_the_order_of_tasks(writing: Writing) -> None:
    messages = [writing.task(2, b"e"), None, writing.task(0, b"a", b"b"), writing.task(1, b"c", b"d")]
    writing.writer.publisher.publish(messages, 0, writing.ends)
    assert writing.records() == [b"a", b"b", b"c", b"d", b"e"]


def test_a_task_that_ran_twice_is_published_once(writing: Writing) -> None:
    writing.task(0, b"a")  # its worker died before it reported to Spark
    for _ in range(2):  # and the commit is repeated
        writing.writer.publisher.publish([writing.task(0, b"a")], 0, writing.ends)
    assert writing.records() == [b"a"]


def test_aborted_stages_go_but_not_what_was_published(writing: Writing) -> None:
    first, second = writing.task(0, b"a"), writing.task(0, b"a")
    writing.writer.publisher.publish([first], 0, writing.ends)
    writing.writer.abort([first, second, None], 0)
    assert writing.records() == [b"a"]
    rows = {row["name"]: row["value"] for row in writing.run.client.command("metrics")["metrics"]}
    assert rows["gauss_engine_staged_bytes"] == 0
