"""Hosted tasks as Spark's workers run them, against a real engine and without a JVM."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from gauss.config.spec import Pipeline
from gauss.model.errors import ConfigError, Fenced
from gauss.stream.driver import plan as planning
from gauss.stream.driver import reading
from gauss.stream.driver.compile import Design, design
from gauss.stream.driver.plan import RANGES, ReadPlan, Work, WritePlan, encode_fields
from gauss.stream.driver.sink import Staged, StreamWriter
from gauss.stream.protocol import At, Claim, Ends
from helpers.engine_process import EngineProcess

pytestmark = pytest.mark.system
FORMAT = {
    "name": "quote",
    "plugin": "json",
    "config": {"fields": [{"name": "n", "type": "int64"}, {"name": "$.x.id", "type": "int64"}]},
}


def config(plugin: str = "filter", **given: Any) -> dict[str, Any]:
    given = given or {"where": ".n % 2 == 0"}
    return {
        "formats": [FORMAT],
        "topics": [{"name": name, "storage": "memory"} for name in ("in", "out")],
        "processors": [
            {
                "name": "p",
                "plugin": plugin,
                "source": {"topic": "in", "read": "offset"},
                "target": {"topic": "out"},
                "config": {"input": {"format": "quote"}, **given},
            }
        ],
    }


def designed(given: dict[str, Any]) -> Design:
    pipeline = Pipeline.model_validate(given)
    return design(pipeline, pipeline.processors[0])


class Hosted:
    """An engine with a claimed processor, and tasks over its ranges."""

    def __init__(self, folder: Path, given: dict[str, Any]) -> None:
        self.engine = EngineProcess(folder, given)
        assert self.engine.start().get("ready")
        self.client = self.engine.client
        self.design = designed(given)
        self.flight = str(self.engine.paths.flight_json)
        self.claim()

    def claim(self) -> None:
        self.claimed = self.client.claim(Claim("p", "c", ["in"], ["out"]))
        fields = encode_fields(self.design.decided({}))
        read = ReadPlan(
            self.flight, "p", self.claimed.generation, self.claimed.start, format=self.design.input, fields=fields
        )
        assert self.design.hosted is not None
        work = Work(read, self.design.hosted)
        self.plan = WritePlan(self.flight, "p", self.claimed.generation, "c", "", "out", self.design.output, work)
        # As it travels: through an option.
        self.plan = msgspec.json.decode(planning.to_option(self.plan), type=WritePlan)
        self.writer = StreamWriter(self.plan)

    def send(self, records: list[bytes]) -> Ends:
        batch = pa.RecordBatch.from_arrays([pa.array(records, pa.binary())], names=["data"])
        self.client.append("in", [batch.cast(pa.schema([pa.field("data", pa.binary(), nullable=False)]))])
        end = int(self.client.command("topic", {"name": "in"})["end"])
        return {**self.claimed.start, "in": At(self.claimed.start["in"].inc, end)}

    def task(self, *ranges: tuple[int, int]) -> Staged:
        inc = self.claimed.start["in"].inc
        rows = [{"topic": "in", "inc": inc, "start": start, "stop": stop} for start, stop in ranges]
        done = self.writer.write(iter([pa.RecordBatch.from_pylist(rows, schema=RANGES)]))
        assert isinstance(done, Staged)
        return done

    def records(self, topic: str = "out") -> list[bytes]:
        return [data for batch in self.client.scan(topic) for data in batch.column(2).to_pylist()]


@pytest.fixture
def hosted(tmp_path: Path) -> Iterator[Hosted]:
    made = Hosted(tmp_path, config())
    yield made
    made.engine.close()
    reading.engine.cache_clear()


def numbers(start: int, stop: int) -> list[bytes]:
    return [b'{"n":%d}' % n for n in range(start, stop)]


def even(start: int, stop: int) -> list[bytes]:
    return [b'{"n":%d}' % n for n in range(start, stop) if n % 2 == 0]


def test_stages_are_published_in_the_order_of_offsets_whatever_the_order_of_tasks(hosted: Hosted) -> None:
    ends = hosted.send(numbers(0, 100))
    messages = [hosted.task((60, 80), (0, 20)), None, hosted.task((80, 100)), hosted.task((20, 60))]
    hosted.writer.publish(messages, 0, ends)
    assert hosted.records() == even(0, 100)


def test_a_task_that_ran_twice_is_published_once(hosted: Hosted) -> None:
    ends = hosted.send(numbers(0, 10))
    hosted.task((0, 10))  # its worker died before Spark heard of it
    hosted.writer.publish([hosted.task((0, 10))], 0, ends)
    assert hosted.records() == even(0, 10)


def test_an_epoch_run_again_changes_nothing(hosted: Hosted) -> None:
    ends = hosted.send([*numbers(0, 10), b"bad"])
    for _ in range(2):
        hosted.writer.publish([hosted.task((0, 11))], 0, ends)
        hosted.claim()
    assert hosted.records() == even(0, 10)
    assert len(hosted.records("_dead")) == 1


def test_a_range_that_gives_nothing_leaves_no_stage(hosted: Hosted) -> None:
    ends = hosted.send([b'{"n":1}', b'{"n":3}'])
    done = hosted.task((0, 2))
    assert done.stages == []
    hosted.writer.publish([done], 0, ends)
    assert hosted.records() == []


def test_bad_records_are_dead_letters_of_the_epoch(hosted: Hosted) -> None:
    ends = hosted.send([b'{"n":2}', b"[]", b'{"n":"x"}', b'{"n":4,"x":{"id":1.5}}', b'{"x":{}}'])
    done = hosted.task((0, 5))
    assert hosted.records("_dead") == []
    hosted.writer.publish([done], 0, ends)
    assert hosted.records() == [b'{"n":2}', b'{"n":4,"x":{"id":1.5}}']  # `where` does not look at x
    letters = [json.loads(letter) for letter in hosted.records("_dead")]
    assert [(letter["offset"], letter["reason"]) for letter in letters] == [(1, "not_object"), (2, "wrong_type")]


def test_a_task_of_an_older_generation_is_refused(hosted: Hosted) -> None:
    hosted.send(numbers(0, 10))
    old = hosted.writer
    hosted.claim()
    hosted.writer = old
    with pytest.raises(Fenced):
        hosted.task((0, 10))


def test_aborted_stages_go_but_not_what_was_published(hosted: Hosted) -> None:
    ends = hosted.send(numbers(0, 10))
    first, second = hosted.task((0, 10)), hosted.task((0, 10))
    hosted.writer.publish([first], 0, ends)
    hosted.writer.abort([first, second, None], 0)
    assert hosted.records() == even(0, 10)


def test_a_plan_is_hosted_where_the_plugin_has_an_arrow_form(hosted: Hosted) -> None:
    assert hosted.design.hosted is not None
    assert [field.name for field in hosted.design.fields] == ["n"]


def test_filter_with_an_output_of_other_fields_is_refused_before_anything_runs() -> None:
    given = config(where=".n > 1", output={"format": "wide"})
    given["formats"].append(
        {"name": "wide", "plugin": "json", "config": {"fields": [{"name": "gone", "type": "int64"}]}}
    )
    with pytest.raises(ConfigError, match="writes gone"):
        designed(given)
