"""Standing tasks and their engine are killed or suspended at every step of the loop: nothing is lost or duplicated."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from gauss.config.spec import Pipeline
from gauss.stream.driver.tasks import reading
from helpers.engine_process import QuickEngine
from helpers.proxy import Proxy
from helpers.standing import hosted_config, hosted_plan, new_job, records_of, send
from helpers.task_process import POINTS, TaskProcess
from helpers.waiting import wait_until

pytestmark = [pytest.mark.system, pytest.mark.fault]

BATCH = 1_000


class World:
    """An engine with file topics, and attempts of one task."""

    def __init__(self, folder: Path) -> None:
        config = hosted_config()
        for topic in config["topics"]:
            topic["storage"] = "file"
        self.engine = QuickEngine(folder / "data", config)
        self.engine.start()
        self.client, self._folder = self.engine.client, folder
        pipeline = Pipeline.model_validate(config)
        self._plan = hosted_plan(self.client, self.engine.paths, pipeline, new_job(self.client), ["p"])
        self._attempts = itertools.count()
        self._tasks: list[TaskProcess] = []
        self.sent: list[bytes] = []

    def send(self) -> None:
        fresh = [b'{"n":%d,"text":"%s"}' % (n, b"x" * 100) for n in range(len(self.sent), len(self.sent) + BATCH)]
        send(self.client, "in", fresh)
        self.sent += fresh

    def task(self, point: str = "none", action: str = "none", *, flight: Path | None = None) -> TaskProcess:
        """Starts the next attempt."""
        given = msgspec.json.decode(self._plan)
        file = self._folder / "plan.json"
        file.write_text(json.dumps(_with_flight(given, str(flight)) if flight is not None else given))
        self._tasks.append(TaskProcess(file, next(self._attempts), point, action))
        return self._tasks[-1]

    @property
    def end(self) -> int:
        return int(self.client.command("topic", {"name": "out"})["end"])

    def wait_for_all(self, what: str) -> None:
        """Waits until everything that was sent is in the output, once and in order."""
        wait_until(lambda: self.end >= len(self.sent) // 2, 60, what)
        assert records_of(self.client, "out") == self.sent[::2], what

    def close(self) -> None:
        for task in self._tasks:
            task.kill()
        self.engine.close()


def _with_flight(plan: object, flight: str) -> object:
    if isinstance(plan, dict):
        return {key: flight if key == "flight" else _with_flight(value, flight) for key, value in plan.items()}
    return [_with_flight(each, flight) for each in plan] if isinstance(plan, list) else plan


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.close()
    reading.engine.cache_clear()


def test_task_killed_at_any_point_is_made_good_by_its_next_attempt(world: World) -> None:
    for point in (*POINTS, *POINTS):
        world.send()
        assert world.task(point, "kill").killed(), point
    world.task()
    world.wait_for_all("after kills")


def test_stopped_task_that_comes_back_beside_its_next_attempt_changes_nothing(world: World) -> None:
    for point in POINTS:
        world.send()
        stopped = world.task(point, "stop")
        wait_until(stopped.has_stopped, 60, point)
        later = world.task()
        world.wait_for_all(point)
        stopped.go_on()
        assert stopped.ended(), point
        world.send()
        world.wait_for_all(f"{point}, with both alive")
        later.kill()


def test_engine_killed_at_any_point_is_found_again_by_the_task(world: World) -> None:
    for point in POINTS:
        world.send()
        task = world.task(point, "wait")
        task.await_point()
        world.engine.kill()
        world.engine.start()
        task.say()
        world.wait_for_all(point)
        world.send()
        world.wait_for_all(f"{point}, and on")
        task.kill()


def test_publish_whose_answer_is_lost_is_asked_for_again_and_made_once(world: World, tmp_path: Path) -> None:
    told = json.loads(world.engine.paths.flight_json.read_text())
    with Proxy(int(told["endpoint"].rpartition(":")[2])) as proxy:
        flight = tmp_path / "proxied.json"
        flight.write_text(json.dumps({**told, "endpoint": f"grpc://127.0.0.1:{proxy.port}"}))
        world.send()
        task = world.task("staged", "wait", flight=flight)
        task.await_point()
        proxy.is_mute = True
        task.say()
        wait_until(lambda: world.end == BATCH // 2, 60, "the publish is made")
        world.engine.kill()
        world.engine.start()
        proxy.is_mute = False
        world.send()
        world.wait_for_all("behind an answer that was lost")
