"""Which chains share a standing task: those that read the same topic in the same format."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

import msgspec

from gauss.config.spec import Pipeline, ProcessorDef
from gauss.config.topics import topics_of
from gauss.contracts.processor import ProcessorSpec, Where
from gauss.contracts.storage import ReadMode
from gauss.registry import spec
from gauss.stream.driver.chains import Chains, find_chains
from gauss.stream.driver.plan import transform_ref
from gauss.stream.graph import Graph, build_graph, table_queries


@dataclass(frozen=True)
class Team:
    """Chains by their heads, in the order of the config. The first gives the task its name."""

    heads: tuple[str, ...]

    @property
    def name(self) -> str:
        return self.heads[0]


def cores_of(master: str) -> int:
    """The cores of a local master, and a first guess for any other."""
    found = re.match(r"local\[(\d+)", master)
    return int(found[1]) if found else 1 if master == "local" else os.cpu_count() or 1


def is_hosted(processor: ProcessorDef) -> bool:
    """Whether a processor on Spark runs in standing tasks."""
    return bool(spec(ProcessorSpec, processor.plugin).hosted)


def find_teams(pipeline: Pipeline, graph: Graph, chains: Chains) -> list[Team]:
    """The standing tasks of a pipeline's hosted processors, each with its chains."""
    names = {node.name for node in graph.on(Where.SPARK)}
    found: dict[object, list[str]] = {}
    for processor in pipeline.processors:
        if processor.name in names and is_hosted(processor) and chains.head(processor.name) == processor.name:
            found.setdefault(_reads(pipeline, graph, processor), []).append(processor.name)
    return [Team(tuple(heads)) for heads in found.values()]


def why_alone(graph: Graph, processor: ProcessorDef) -> str:
    """Why a head shares its task with no other; empty: it would if another read the same."""
    sources = topics_of(processor)[0]
    if len(sources) > 1:
        return "it reads several topics"
    if sources[0].read != ReadMode.OFFSET:
        return f"it reads by {sources[0].read}"
    if tables := graph.processors[processor.name].tables:
        return f"it looks rows up in {', '.join(tables)}, whose version belongs to its own epochs"
    if processor.on_restart == "fail":
        return 'it has on_restart = "fail"'
    if processor.parallelism is not None:
        return "it has a parallelism of its own"
    return ""


def _reads(pipeline: Pipeline, graph: Graph, processor: ProcessorDef) -> object:
    """What heads of one task have in common."""
    if why_alone(graph, processor):
        return processor.name
    return topics_of(processor)[0][0].topic, msgspec.json.encode(transform_ref(pipeline, processor).input)


def standing_tasks(pipeline: Pipeline) -> int:
    """How many tasks of a pipeline may stand at once on one machine."""
    cores = cores_of(pipeline.spark.master)
    names = {node.name for node in build_graph(pipeline).on(Where.SPARK)}
    hosted = [entry for entry in pipeline.processors if entry.name in names and is_hosted(entry)]
    return sum(entry.parallelism or cores for entry in hosted) + cores * len(table_queries(pipeline))


def least_slots(pipeline: Pipeline) -> int:
    """How many slots of a cluster the standing tasks of a pipeline hold at the least, each as long as it runs."""
    graph = build_graph(pipeline)
    entries = {entry.name: entry for entry in pipeline.processors}
    teams = find_teams(pipeline, graph, find_chains(pipeline, graph))
    return sum(entries[team.name].parallelism or 1 for team in teams) + len(table_queries(pipeline))
