"""Standing tasks of one hosted processor against a real engine, without a JVM."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gauss.model.errors import ConfigError, Fenced
from gauss.stream.driver.tasks import outbox
from helpers.standing import Hosted, designed, hosted_config, numbers
from helpers.waiting import stays

pytestmark = pytest.mark.system


@pytest.fixture
def hosted(tmp_path: Path) -> Iterator[Hosted]:
    made = Hosted(tmp_path, hosted_config())
    yield made
    made.close()


@pytest.fixture(params=["inline", "ahead"])
def stages(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether stages are part of the publish or sent before it."""
    if request.param == "ahead":
        monkeypatch.setattr(outbox, "INLINE_BYTES", -1)


def even(start: int, stop: int) -> list[bytes]:
    return [b'{"n":%d}' % n for n in range(start, stop) if n % 2 == 0]


@pytest.mark.usefixtures("stages")
def test_epochs_are_published_in_the_order_of_offsets_whatever_the_order_of_tasks(hosted: Hosted) -> None:
    hosted.send(numbers(0, 100))
    tasks = [hosted.task, *(hosted.new_task(job=hosted.task.job, task=number) for number in (1, 2))]
    done = [task.hold(task.granted(rows)) for task, rows in zip(tasks, (20, 40, 40), strict=True)]
    with ThreadPoolExecutor(2) as pool:
        later = [pool.submit(held.publish) for held in (done[2], done[1])]
        stays(lambda: hosted.records() == [], 0.3)
        done[0].publish()
        for each in later:
            each.result(60)
    assert hosted.records() == even(0, 100)


@pytest.mark.usefixtures("stages")
def test_a_task_that_ran_twice_is_published_once(hosted: Hosted) -> None:
    hosted.send(numbers(0, 10))
    died = hosted.task.hold(hosted.task.granted())  # killed before its publish
    again = hosted.new_task(job=hosted.task.job, attempt=1)
    again.run()
    assert hosted.records() == even(0, 10)
    with pytest.raises(Fenced):
        died.publish()
    assert hosted.records() == even(0, 10)


@pytest.mark.usefixtures("stages")
def test_an_epoch_published_again_changes_nothing(hosted: Hosted) -> None:
    hosted.send([*numbers(0, 10), b"bad"])
    done = hosted.task.hold(hosted.task.granted())
    for _ in range(2):  # a client repeats the publish if it gets no reply
        done.publish()
    assert hosted.records() == even(0, 10)
    hosted.send(numbers(10, 20))
    hosted.task.run()
    assert hosted.new_task().epoch() == {}
    assert hosted.records() == even(0, 20)
    assert len(hosted.records("_dead")) == 1


def test_a_range_that_gives_nothing_leaves_no_stage(hosted: Hosted) -> None:
    hosted.send([b'{"n":1}', b'{"n":3}'])
    done = hosted.task.hold(hosted.task.granted())
    assert [publish.targets for publish in done.publishes] == [{"out": []}]
    assert done.outbox.inline == []
    done.publish()
    assert hosted.records() == []
    assert hosted.task.granted() == {}


def test_bad_records_are_dead_letters_of_the_epoch(hosted: Hosted) -> None:
    hosted.send([b'{"n":2}', b"[]", b'{"n":"x"}', b'{"n":4,"x":{"id":1.5}}', b'{"x":{}}'])
    done = hosted.task.hold(hosted.task.granted())
    assert hosted.records("_dead") == []
    done.publish()
    assert hosted.records() == [b'{"n":2}', b'{"n":4,"x":{"id":1.5}}']  # `where` does not use x
    letters = [json.loads(letter) for letter in hosted.records("_dead")]
    assert [(letter["offset"], letter["reason"]) for letter in letters] == [(1, "not_object"), (2, "wrong_type")]


@pytest.mark.usefixtures("stages")
def test_a_task_of_an_older_generation_is_refused(hosted: Hosted) -> None:
    hosted.send(numbers(0, 10))
    grants = hosted.task.granted()
    hosted.new_task()
    with pytest.raises(Fenced):
        hosted.task.work(grants)
    with pytest.raises(Fenced):
        hosted.task.granted()
    with pytest.raises(Fenced):
        hosted.task.claim()
    assert hosted.records() == []


def test_stages_of_a_task_that_died_go_with_the_next_claim(hosted: Hosted, monkeypatch: pytest.MonkeyPatch) -> None:
    def staged() -> int:
        rows = hosted.client.command("metrics")["metrics"]
        return next(int(row["value"]) for row in rows if row["name"].endswith("staged_bytes"))

    monkeypatch.setattr(outbox, "INLINE_BYTES", -1)
    hosted.send(numbers(0, 10))
    hosted.task.hold(hosted.task.granted())
    assert staged() > 0
    again = hosted.new_task()
    assert staged() == 0
    again.run()
    assert hosted.records() == even(0, 10)
    assert staged() == 0


def test_design_decodes_the_fields_that_the_transform_names() -> None:
    found = designed(hosted_config())
    assert found.runs == "hosted"
    assert [field.name for field in found.traits.fields] == ["n"]


def test_filter_with_an_output_of_other_fields_is_refused_before_anything_runs() -> None:
    given = hosted_config(where=".n > 1", output={"format": "wide"})
    given["formats"].append(
        {"name": "wide", "plugin": "json", "config": {"fields": [{"name": "gone", "type": "int64"}]}}
    )
    with pytest.raises(ConfigError, match="writes gone"):
        designed(given)
