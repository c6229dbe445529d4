"""Grouping of chains that share a standing task: those that read the same topic in the same format."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from gauss.config.spec import Pipeline, ProcessorDef
from gauss.config.topics import topics_of
from gauss.contracts.processor import ProcessorSpec, Where
from gauss.contracts.storage import ReadMode
from gauss.registry import spec
from gauss.spark.session import cores_of
from gauss.stream.driver.planning.chains import Chains, find_chains
from gauss.stream.driver.planning.refs import transform_ref
from gauss.stream.graph import Graph, build_graph, table_queries


@dataclass(frozen=True)
class Team:
    """The heads of the chains of one task, in config order. The task is named after the first."""

    heads: tuple[str, ...]

    @property
    def name(self) -> str:
        return self.heads[0]


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
    """Why a head never shares its task; empty if it shares with others that read the same."""
    sources = topics_of(processor)[0]
    if len(sources) > 1:
        return "it reads several topics"
    if sources[0].read != ReadMode.OFFSET:
        return f"it reads by {sources[0].read}"
    if tables := graph.processors[processor.name].tables:
        return f"it looks rows up in {', '.join(tables)}, whose version is planned with its own epochs"
    topics = [source.topic for source in sources] + list(graph.processors[processor.name].targets)
    if shared := graph.shared(topics):
        return f"its tasks read or write {', '.join(shared)} themselves"
    if processor.on_restart == "fail":
        return 'it has on_restart = "fail"'
    if processor.parallelism is not None:
        return "it sets parallelism"
    return ""


def _reads(pipeline: Pipeline, graph: Graph, processor: ProcessorDef) -> object:
    """The key by which heads are grouped into tasks."""
    if why_alone(graph, processor):
        return processor.name
    return topics_of(processor)[0][0].topic, msgspec.json.encode(transform_ref(pipeline, processor).input)


def standing_tasks(pipeline: Pipeline) -> int:
    """The maximum number of concurrent standing tasks of a pipeline on one machine."""
    cores = cores_of(pipeline.spark.master)
    names = {node.name for node in build_graph(pipeline).on(Where.SPARK)}
    hosted = [entry for entry in pipeline.processors if entry.name in names and is_hosted(entry)]
    return sum(entry.parallelism or cores for entry in hosted) + cores * len(table_queries(pipeline))


def least_slots(pipeline: Pipeline) -> int:
    """The minimum number of cluster slots that the standing tasks of a pipeline occupy while it runs."""
    graph = build_graph(pipeline)
    entries = {entry.name: entry for entry in pipeline.processors}
    teams = find_teams(pipeline, graph, find_chains(pipeline, graph))
    return sum(entries[team.name].parallelism or 1 for team in teams) + len(table_queries(pipeline))
