"""Sources that pull records from an external system: records and position are committed together."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from gauss import registry
from gauss.contracts.chunk import Chunk
from gauss.contracts.edge import Edge, EdgeStatus
from gauss.contracts.outside import PullContext, PullSpec
from gauss.model.errors import ProtocolError, Unavailable
from gauss.stream.engine.delivery.transaction import Transaction
from gauss.stream.engine.edges.outside_pull import OutsidePull
from gauss.stream.engine.journal.entries import Pulled
from gauss.stream.engine.topics.log_topic import LogTopic
from gauss.stream.graph import ProcessorNode
from gauss.stream.live_formats import schema_dir

if TYPE_CHECKING:
    from gauss.stream.engine.runtime import Engine


def pull_source(engine: Engine, node: ProcessorNode, status: EdgeStatus) -> Edge:
    """A pull source that starts at its committed position."""
    spec = registry.spec(PullSpec, node.plugin)
    named = getattr(getattr(node.config, "input", None), "format", None)

    outside = _outside(engine, node)

    def publish(chunks: Mapping[str, Chunk], position: Any, cancel: threading.Event) -> None:
        _publish(engine, node, chunks, position, cancel, outside=outside)

    context = PullContext(
        name=node.name,
        config=node.config,
        topics=node.targets,
        embedded_dir=engine.paths.server(spec.system),
        schema_dir=None if named is None else schema_dir(engine.paths, named),
        position=engine.ledger.outside(node.name) if outside is None else outside.position(),
        publish=publish,
        may_read=engine.may_read,
        status=status,
    )
    built: Edge = registry.build(spec, context)
    return built


def _outside(engine: Engine, node: ProcessorNode) -> OutsidePull | None:
    """How a source publishes whose only target is in an outside system."""
    if len(node.targets) != 1 or not engine.graph.shared(node.targets):
        return None
    topic = engine.topic(node.targets[0])
    assert isinstance(topic, LogTopic)
    made = OutsidePull(node.name, topic, engine.ledger, engine.started_ms)
    engine.built.add(made)
    return made


def _publish(
    engine: Engine,
    node: ProcessorNode,
    chunks: Mapping[str, Chunk],
    position: Any,
    cancel: threading.Event,
    *,
    outside: OutsidePull | None,
) -> None:
    """Commits records and position together."""
    if unknown := chunks.keys() - set(node.targets):
        raise ProtocolError(
            f'source "{node.name}" publishes to {", ".join(sorted(unknown))}, expected {", ".join(node.targets)}'
        )
    transaction = Transaction(engine.topics, engine.ledger, engine.synced)
    for name, chunk in chunks.items():
        # Before the commit: a repeated letter is better than a missing one.
        for letter in transaction.add(name, [chunk]):
            engine.dead.write(msgspec.structs.replace(letter, processor=node.name), cancel)
    if outside is not None:
        kept = transaction.chunks.get(node.targets[0], [])
        outside.publish(kept[0] if kept else None, position, cancel)
        return
    if full := transaction.wait_room(cancel):
        raise Unavailable(f'source "{node.name}" stops while it waits for space in topic "{full}"')
    transaction.commit(lambda number, ended: Pulled(number, node.name, position, ended))
