"""The watchdog restarts an engine that leaves several pings unanswered, and a driver that is silent while the engine
answers."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any, cast

import pytest

from gauss.clients.engine.driver_messages import DriverSync
from gauss.clients.engine.protocol import Command
from gauss.config.spec import Pipeline
from gauss.model.errors import Unavailable
from gauss.stream.control.run import Running
from gauss.stream.control.watchdog import UNANSWERED, Watchdog
from gauss.stream.engine.observe.driver_board import DriverBoard
from gauss.stream.engine.runtime import Engine
from gauss.stream.engine.server import commands


class Part:
    """A child process that records why it was restarted."""

    def __init__(self, age: float) -> None:
        self.state = "ready"
        self.restarts = 0
        self.since = time.monotonic() - age
        self.why: list[str] = []

    def restart(self, why: str) -> None:
        self.why.append(why)


class Watched:
    """The state of a run as the watchdog sees it; `heard` is `None` if the engine does not answer."""

    def __init__(self, heard: float | None = 0.0, *, engine_age: float = 1e6, driver_age: float = 1e6) -> None:
        self.pipeline = Pipeline()
        self.engine, self.driver = Part(engine_age), Part(driver_age)
        self.heard = heard

    def client(self) -> Any:
        return self

    def ping(self, seconds: float) -> dict[str, Any]:
        assert seconds * UNANSWERED == self.pipeline.engine.hang_after / 1000
        if self.heard is None:
            raise Unavailable("no answer")
        return {"pid": 1, "driver_heard_s": self.heard}


def watchdog(run: Watched) -> Watchdog:
    return Watchdog(cast(Running, run))


def test_engine_is_restarted_after_several_pings_without_an_answer() -> None:
    run = Watched(None)
    dog = watchdog(run)
    for _ in range(UNANSWERED - 1):
        dog.look()
    assert run.engine.why == []
    dog.look()
    assert run.engine.why == ["the engine did not answer for 30 s"]


def test_one_answer_forgives_what_was_unanswered_before() -> None:
    run = Watched(None)
    dog = watchdog(run)
    for _ in range(5):
        run.heard = None
        for _ in range(UNANSWERED - 1):
            dog.look()
        run.heard = 0.0
        dog.look()
    assert run.engine.why == []


def test_engine_that_is_starting_again_is_not_blamed() -> None:
    run = Watched(None)
    dog = watchdog(run)
    run.engine.state = "restarting"
    for _ in range(2 * UNANSWERED):
        dog.look()
    assert run.engine.why == []


def test_silent_driver_is_restarted() -> None:
    run = Watched(61.0)
    watchdog(run).look()
    assert run.driver.why == ["the driver has not reported for 60 s"]


@pytest.mark.parametrize("young", ["engine_age", "driver_age"])
def test_driver_may_be_silent_while_it_or_the_engine_comes_up(young: str) -> None:
    run = Watched(500.0, **{young: 5.0})
    watchdog(run).look()
    assert run.driver.why == []


def test_ping_is_answered_while_every_lock_of_the_engine_is_held() -> None:
    # A ping uses only the board, so a slow disk cannot delay it.
    engine = cast(Engine, SimpleNamespace(board=DriverBoard()))
    engine.board._made -= 1_000
    assert commands.run(engine, Command("ping"))["driver_heard_s"] >= 1_000
    engine.board.sync(DriverSync([]))
    assert commands.run(engine, Command("ping"))["driver_heard_s"] < 1_000
