"""Processors that read the partitions of topics in outside systems."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import partial

from gauss.clients.engine.positions import partition_of
from gauss.config.spec import Pipeline
from gauss.contracts.processor import Role
from gauss.stream.engine.delivery.publish import Publisher
from gauss.stream.engine.journal.ledger import Ledger
from gauss.stream.engine.topics.partitions import Partitions, Renewed
from gauss.stream.engine.topics.topic import Topic
from gauss.stream.graph import Graph, ProcessorNode

log = logging.getLogger(__name__)


def keys_read_by(node: ProcessorNode, partitions: Mapping[str, Partitions]) -> list[str]:
    """The keys of the topics that a transform reads, partition by partition."""
    found: list[str] = []
    for reading in node.sources:
        shared = partitions.get(reading.topic)
        found += [reading.topic] if shared is None else sorted(shared.places, key=partition_of)
    return found


class PartitionReaders:
    """Gives new partitions to the processors that read their topic, and shows the positions of those processors."""

    def __init__(
        self, partitions: Mapping[str, Partitions], places: dict[str, Topic], graph: Graph, publisher: Publisher
    ) -> None:
        """`places`: what processors read, by the keys of Ends; new partitions are added to it."""
        self._partitions, self._places, self._graph, self._publisher = partitions, places, graph, publisher

    def follow(self, renewed: Renewed) -> None:
        """Begins to follow the outside systems."""
        for name, each in self._partitions.items():
            each.follow(partial(self._added, name), renewed)

    def _added(self, topic: str, key: str, place: Topic) -> None:
        self._places[key] = place
        for name, running in self._publisher.running.items():
            if any(reading.topic == topic for reading in self._graph.processors[name].sources):
                self._publisher.add_partition(running, key)
        log.info("topic %s has a new partition: %s", topic, key)

    def show_positions(self, pipeline: Pipeline, ledger: Ledger) -> None:
        """Shows the positions of processors to the tools of outside systems."""
        for definition in pipeline.processors:
            node, source = self._graph.processors[definition.name], definition.source
            group = f"gauss.{node.name}" if source is None or source.group is None else source.group
            row = ledger.row(node.name)
            for shared in (self._partitions[each.topic] for each in node.sources if each.topic in self._partitions):
                if node.role is Role.SINK:
                    shared.show_reader(group, node.name)
                elif row is not None:
                    shared.show_position(group, row.ends)
