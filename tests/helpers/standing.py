"""Standing tasks of hosted chains, run epoch by epoch against a real engine, without a JVM."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import msgspec
import pyarrow as pa

from gauss.clients.engine.client import EngineClient
from gauss.clients.engine.task_messages import Grant, Next, Publish
from gauss.config.spec import Pipeline
from gauss.model.paths import DataDir
from gauss.spark.standing import TaskPlace
from gauss.stream.driver.jobs.hosted_units import HostedUnit
from gauss.stream.driver.planning.chains import find_chains
from gauss.stream.driver.planning.standing_plans import HostedPlan, StandingPlan
from gauss.stream.driver.queries.compile import Design, design
from gauss.stream.driver.supervised import Context
from gauss.stream.driver.tasks import reading
from gauss.stream.driver.tasks.hosted_loop import HostedLoop
from gauss.stream.driver.tasks.outbox import Outbox
from gauss.stream.driver.tasks.standing_loop import Clock
from gauss.stream.graph import build_graph
from helpers.engine_process import EngineProcess


def new_job(client: EngineClient) -> int:
    """Registers a new standing job; returns its number."""
    return int(client.command("standing.job")["job"])


def hosted_plan(client: EngineClient, paths: DataDir, pipeline: Pipeline, job: int, *chains: list[str]) -> bytes:
    """The serialised plan of a job for some chains, each given by its members, head first."""
    kept = {name for chain in chains for name in chain[1:]}
    found = find_chains(pipeline, build_graph(pipeline))
    found = found.without({link.reader for link in found.fused} - kept)
    context = Context(cast(Any, None), client, pipeline, paths, str(paths.flight_json))
    made = HostedUnit(context, found, [chain[0] for chain in chains], 1).plan(job)
    assert isinstance(made, HostedPlan)
    return msgspec.json.encode(made)


class _Loop(HostedLoop):
    """A loop that can hold back its publish."""

    holds = False
    held: tuple[list[Publish], Outbox]

    def _publish(self, publishes: list[Publish], outbox: Outbox, failed: dict[str, BaseException]) -> None:
        if self.holds:
            self.held = publishes, outbox
        else:
            super()._publish(publishes, outbox, failed)


@dataclass
class Held:
    """An epoch that is finished but not published. Large results are staged; small ones are part of the publish."""

    loop: _Loop
    grants: dict[str, Grant]
    publishes: list[Publish]
    outbox: Outbox

    def publish(self) -> None:
        failed: dict[str, BaseException] = {}
        self.loop._publish(self.publishes, self.outbox, failed)
        self.loop._settle(self.grants, failed)

    def staged(self) -> dict[str, list[dict[str, Any]]]:
        """The records that are part of the publish, by topic."""
        found: dict[str, list[dict[str, Any]]] = {}
        for each in self.outbox.inline:
            with pa.ipc.open_stream(each.data) as reader:
                found.setdefault(each.head.topic, []).extend(reader.read_all().to_pylist())
        return found


class HostedTask:
    """A task for some chains, each given by its members, head first. By default it belongs to a new job, whose claim
    fences earlier ones."""

    def __init__(
        self,
        client: EngineClient,
        paths: DataDir,
        pipeline: Pipeline,
        *chains: list[str],
        job: int = 0,
        task: int = 0,
        attempt: int = 0,
    ) -> None:
        self.client = client
        self.job = job or new_job(client)
        given = hosted_plan(client, paths, pipeline, self.job, *chains)
        plan: Any = msgspec.json.decode(given, type=StandingPlan)
        self.loop = _Loop(plan, TaskPlace(task, attempt))
        self.claim()

    def claim(self) -> None:
        """Claims the chains again."""
        self.loop.claim()

    @property
    def names(self) -> list[str]:
        """The processors that it runs. Members that still have unread input are not among them."""
        return [step.name for chain in self.loop._plans.values() for step in (chain.head, *chain.steps)]

    def granted(self, rows: int = 1_000_000, size: int = 1 << 26) -> dict[str, Grant]:
        """The grants of the next epoch; empty if there is no work."""
        found = self.client.next(Next(dict(self.loop.generations), rows, size, job=self.job, task=self.loop.place.task))
        for name, why in found.apart.items():
            self.loop.drop(name, why)
        return found.grants

    def work(self, grants: dict[str, Grant]) -> None:
        """Processes the grants and publishes the results."""
        self.loop.work(grants, Clock())

    def hold(self, grants: dict[str, Grant]) -> Held:
        """Processes the grants without publishing."""
        self.loop.holds = True
        try:
            self.work(grants)
        finally:
            self.loop.holds = False
        return Held(self.loop, grants, *self.loop.held)

    def epoch(self, rows: int = 1_000_000) -> dict[str, Grant]:
        """Runs one epoch, if there is work."""
        if grants := self.granted(rows):
            self.work(grants)
        return grants

    def run(self) -> None:
        """Runs epochs until there is no work."""
        while self.epoch():
            pass

    def close(self) -> None:
        """Ends the task."""
        self.loop.close()


QUOTE = {
    "name": "quote",
    "plugin": "json",
    "config": {"fields": [{"name": "n", "type": "int64"}, {"name": "$.x.id", "type": "int64"}]},
}


def hosted_config(plugin: str = "filter", **given: Any) -> dict[str, Any]:
    """The config of a processor `p` from topic `in` to topic `out`; by default it passes even numbers."""
    given = given or {"where": ".n % 2 == 0"}
    return {
        "formats": [QUOTE],
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


def numbers(start: int, stop: int) -> list[bytes]:
    """Records for such a processor."""
    return [b'{"n":%d}' % n for n in range(start, stop)]


def designed(given: dict[str, Any]) -> Design:
    """The design of the first processor of a config."""
    pipeline = Pipeline.model_validate(given)
    return design(pipeline, pipeline.processors[0])


class Hosted:
    """An engine and a standing task for its only processor, `p`."""

    def __init__(self, folder: Path, given: dict[str, Any]) -> None:
        self.engine = EngineProcess(folder, given)
        assert self.engine.start().get("ready")
        self.client = self.engine.client
        self.pipeline = Pipeline.model_validate(given)
        self.task = self.new_task()

    def new_task(self, *, job: int = 0, task: int = 0, attempt: int = 0) -> HostedTask:
        """A new task; by default of a new job."""
        given = {"job": job, "task": task, "attempt": attempt}
        return HostedTask(self.client, self.engine.paths, self.pipeline, ["p"], **given)

    def send(self, records: list[bytes], topic: str = "in") -> None:
        send(self.client, topic, records)

    def records(self, topic: str = "out") -> list[bytes]:
        return records_of(self.client, topic)

    def close(self) -> None:
        self.task.close()
        self.engine.close()
        reading.engine.cache_clear()


def send(client: EngineClient, topic: str, records: list[bytes]) -> None:
    """Appends records to a topic."""
    batch = pa.RecordBatch.from_arrays([pa.array(records, pa.binary())], names=["data"])
    client.append(topic, [batch.cast(pa.schema([pa.field("data", pa.binary(), nullable=False)]))])


def records_of(client: EngineClient, topic: str) -> list[bytes]:
    """The data of a topic's records."""
    return [data for batch in client.scan(topic) for data in batch.column(2).to_pylist()]
