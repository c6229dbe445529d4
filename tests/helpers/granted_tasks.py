"""Standing tasks of processors, controlled by a test through the grants of a `Delivery`."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from gauss.clients.engine.task_messages import (
    Claim,
    Claimed,
    Grant,
    Granted,
    Next,
    Publish,
    Stage,
)
from helpers.delivery import Delivery


class Task:
    """A standing task of processor `p`, or of several, controlled by the test."""

    def __init__(self, delivery: Delivery, job: int, task: int = 0, attempt: int = 0, *names: str) -> None:
        self.delivery, self.job, self.task, self.attempt = delivery, job, task, attempt
        self.names = names or ("p",)
        self.generations: dict[str, int] = {}

    def claim(self) -> Claimed:
        for name in self.names:
            targets = ["out"] if name == "p" else ["other"]
            asked = Claim(name, "", ["in"], targets, job=self.job, task=self.task, attempt=self.attempt)
            claimed = self.delivery.publisher.claim(asked)
            self.generations[name] = claimed.generation
        return claimed

    def next(self, rows: int = 1000, wait_ms: int = 0, **given: Any) -> Granted:
        return self.delivery.grants.next(Next(dict(self.generations), rows, 1 << 30, wait_ms, task=self.task, **given))

    def one(self, rows: int = 1000, **given: Any) -> Grant:
        return self.next(rows, **given).grants["p"]

    def publish(self, grant: Grant, name: str = "p") -> None:
        """Publishes the granted records unchanged."""
        source = self.delivery.rows("in")
        begin = grant.start["in"].off if grant.start["in"].inc == grant.end["in"].inc else 0
        found = [row["data"] for row in source if begin <= row["offset"] < grant.end["in"].off]
        target, generation = "out" if name == "p" else "other", self.generations[name]
        stage = f"{name} {generation} {grant.epoch}"
        batch = pa.record_batch({"ts_ms": pa.nulls(len(found), pa.int64()), "data": pa.array(found, pa.binary())})
        self.delivery.stages.put(Stage(stage, name, generation, target), [batch])
        stages = [] if grant.skip else [stage]
        whole = Publish(name, generation, "", grant.epoch, grant.end, {target: stages}, skip=bool(grant.skip))
        whole.why = grant.skip
        self.delivery.grants.publish(whole)


def numbers(count: int, first: int = 0) -> list[bytes]:
    return [b"%d" % number for number in range(first, first + count)]


def standing(delivery: Delivery, *names: str) -> Task:
    task = Task(delivery, delivery.grants.new_job(), 0, 0, *names)
    task.claim()
    return task
