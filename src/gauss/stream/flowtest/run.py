"""Runs test cases on one bench: one after the other, or beside each other where they share nothing."""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import logging
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from gauss.contracts.storage import TopicKind
from gauss.model.errors import ConfigError, GaussError
from gauss.model.units import counted
from gauss.process import locks
from gauss.stream.flowtest.bench import LOOK_SECONDS, Bench
from gauss.stream.flowtest.cases import Case, Expect, ExpectedLetters
from gauss.stream.flowtest.clones import Clones
from gauss.stream.flowtest.judge import Suite
from gauss.stream.flowtest.match import differences, shown
from gauss.stream.flowtest.records import Codec, wanted
from gauss.stream.flowtest.world import World
from gauss.stream.graph import build_graph

PREFIX, LOCK = "gauss-test-", "clones.lock"
OLD_SECONDS = 600.0
log = logging.getLogger("gauss.test")


class Patience(NamedTuple):
    """How long results must be unchanged, in seconds, before a case passes (another row may still arrive) or fails."""

    right: float
    wrong: float


IN_ENGINE = Patience(0.1, 0.5)
ON_SPARK = Patience(0.2, 1.5)
STATEFUL = Patience(1.0, 30.0)
"""Spark closes windows some batches after the records or the clock that close them."""
BESIDE = 4
"""Cases that run at once, if there are as many cores."""
IN_VAIN = 6
"""Idle requests for a next batch after which no more records or watermarks can be in flight; a join asks twice."""


@dataclass(frozen=True)
class Problem:
    """An expectation that is not met."""

    where: str
    lines: list[str]

    def __str__(self) -> str:
        return "\n  ".join([self.where, *self.lines])


@dataclass
class Result:
    """The result of a case."""

    file: Path
    name: str
    seconds: float = 0.0
    problems: list[Problem] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        return not self.problems

    def to_dict(self) -> dict[str, Any]:
        return {
            "file": str(self.file),
            "case": self.name,
            "status": "passed" if self.passed else "failed",
            "seconds": round(self.seconds, 3),
            "problems": [dataclasses.asdict(problem) for problem in self.problems],
        }


def run_suites(suites: list[Suite], only: str | None = None, *, data_dir: Path) -> Iterator[Result]:
    """Runs all cases and yields each result, in order; `only`: runs only the case of this name. `data_dir` has the
    engine of prepared databases."""
    names = [case.name for suite in suites for case in suite.cases]
    if only is not None and only not in names:
        raise ConfigError(f'no case "{only}"', hint=f"there are: {', '.join(names)}")
    _remove_old()
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    chosen = [(suite, case) for suite in suites for case in suite.cases if only in (None, case.name)]
    bench, clones = Bench(folder), Clones(data_dir, [suite for suite, _ in chosen], folder / LOCK)
    beside = ThreadPoolExecutor(min(BESIDE, os.cpu_count() or 1), thread_name_prefix="case")

    def job(number: int) -> Callable[[], Result]:
        suite, case = chosen[number]
        return lambda: _run(bench, suite, case, folder / f"case{number}", _OwnClones(clones, number))

    try:
        early = {number: beside.submit(job(number)) for number, (suite, _) in enumerate(chosen) if _is_apart(suite)}
        for number in range(len(chosen)):
            yield early[number].result() if number in early else job(number)()
    finally:
        beside.shutdown(wait=False, cancel_futures=True)
        bench.close()
        clones.close()  # cases that wait for a preparation end with it
        beside.shutdown()
        shutil.rmtree(folder, ignore_errors=True)


def _remove_old() -> None:
    """Removes the folders of runs that were killed."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):
            is_old = time.time() - (folder / LOCK).stat().st_mtime > OLD_SECONDS
            if is_old and not locks.is_locked(folder / LOCK):
                shutil.rmtree(folder, ignore_errors=True)


class _OwnClones(NamedTuple):
    """The clones of one case."""

    clones: Clones
    number: int

    def take(self) -> dict[str, str]:
        return self.clones.take(self.number)

    def drop(self) -> None:
        self.clones.drop(self.number)


def _is_apart(suite: Suite) -> bool:
    """Whether cases share nothing but the parent of their engines: there is one Spark session, and one embedded server
    of each kind."""
    graph = build_graph(suite.pipeline)
    return not graph.needs_spark and not graph.servers and not graph.shared(graph.topics)


def _run(bench: Bench, suite: Suite, case: Case, data_dir: Path, clones: _OwnClones) -> Result:
    result = Result(suite.file, case.name)
    began = time.monotonic()
    world: World | None = None
    try:
        world = World(bench, suite, data_dir, case.clock_ms, clones.take())
        codec = Codec(world.with_sources, suite.checked.base_dir)
        world.start(case.timeout / 1000)
        _take_steps(world, suite, case, codec)
        result.problems = _await(world, case, codec)
    except GaussError as error:
        hide = suite.checked.redactor.redact
        result.problems = [Problem(hide(error.message), [hide(error.hint)] if error.hint else [])]
    except Exception as error:  # of a format or plugin: the other cases still run
        log.exception("case %s", case.name)
        result.problems = [Problem(f"unexpected {type(error).__name__}: {error}", [])]
    finally:
        if world is not None:
            world.close()
        clones.drop()
        result.seconds = time.monotonic() - began
    return result


def _take_steps(world: World, suite: Suite, case: Case, codec: Codec) -> None:
    for step in case.steps:
        if step.send is not None:
            topic = suite.topic_of(step.send)
            world.send(topic, codec.encoded(step, topic), step.ts_ms)
            if step.wait:
                world.settle(case.timeout / 1000)
        elif step.advance is not None:
            world.move_clock(world.now_ms + step.advance)
        elif step.restart is not None:
            world.restart(step.restart)


def _await(world: World, case: Case, codec: Codec) -> list[Problem]:
    """Waits until the results are stable; returns the expectations that are not met."""
    stateful = any(node.stateful for node in world.graph.processors.values())
    patience = STATEFUL if stateful else ON_SPARK if world.graph.needs_spark else IN_ENGINE
    ends: dict[str, Any] = {}
    since, right_since = time.monotonic(), 0.0
    epochs = world.epochs()
    while True:
        now = world.settle(case.timeout / 1000)
        if now != ends:
            ends, since, right_since = now, time.monotonic(), 0.0
        problems = _problems(world, case, codec)
        if not problems:
            right_since = right_since or time.monotonic()
            if time.monotonic() - right_since >= patience.right:
                return []
        elif time.monotonic() - since > patience.wrong:
            return problems
        else:
            right_since = 0.0
            later = world.epochs()
            if any(later[name][0] != epoch for name, (epoch, _) in epochs.items()):
                epochs = later
            elif stateful and all(later[name][1] - vain >= IN_VAIN for name, (_, vain) in epochs.items()):
                return problems
        time.sleep(LOOK_SECONDS)


def _problems(world: World, case: Case, codec: Codec) -> list[Problem]:
    found = [_topic_problem(world, expect, codec) for expect in case.expect]
    return [problem for problem in (*found, _dead_problem(world, case.dead_letters)) if problem is not None]


def _topic_problem(world: World, expect: Expect, codec: Codec) -> Problem | None:
    held = world.found(expect.topic)
    if expect.count is not None:
        lines = (
            [] if len(held) == expect.count else [f"expected {counted(expect.count, 'record')}, found {len(held):,}"]
        )
    else:
        stored = world.graph.topics[expect.topic].kind is TopicKind.STORED_TABLE
        found = held if stored else codec.decoded(expect, held)  # type: ignore[arg-type]
        lines = differences(wanted(expect), found, ordered=expect.ordered, exact=expect.exact)
    return Problem(f"topic {expect.topic}", lines) if lines else None


def _dead_problem(world: World, expected: Sequence[ExpectedLetters]) -> Problem | None:
    """Assigns each dead letter to the first expectation that fits and is not yet complete; none may be left."""
    letters = world.dead_letters()
    lines = []
    for each in expected:
        fitting = [
            letter
            for letter in letters
            if each.reason in (None, letter["reason"]) and each.processor in (None, letter["processor"])
        ][: each.count]
        letters = [letter for letter in letters if letter not in fitting]
        if len(fitting) < each.count:
            words = " ".join(filter(None, [each.reason, f"of {each.processor}" if each.processor else ""]))
            lines.append(f"expected {each.count} {words}, found {len(fitting)}".replace("  ", " "))
    for letter in letters:
        data = shown(base64.b64decode(letter["data"]))
        lines.append(f"unexpected: {letter['reason']} at {letter['processor']}: {letter['detail']}: {data}")
    return Problem("dead letters", lines) if lines else None
