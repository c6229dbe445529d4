"""Sources that ask an outside system for records: what they publish, and the position that goes with it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from gauss import registry
from gauss.contracts.chunk import Chunk
from gauss.contracts.edge import DeadLetter, Edge, EdgeStatus
from gauss.contracts.live import PullContext, PullSpec
from gauss.contracts.processor import ProcessorSpec
from gauss.model.errors import Unavailable
from gauss.stream.engine.entries import Pulled
from gauss.stream.engine.ledger import Ledger
from gauss.stream.engine.listening import Listening
from gauss.stream.engine.topic import Topic
from gauss.stream.graph import ProcessorNode
from gauss.stream.live_formats import schema_dir
from gauss.stream.protocol import At

if TYPE_CHECKING:
    from gauss.stream.engine.runtime import Engine


def pulls(node: ProcessorNode) -> bool:
    return isinstance(registry.spec(ProcessorSpec, node.plugin), PullSpec)


def pulling(engine: Engine, node: ProcessorNode) -> Listening:
    """A pulling source, to be started."""
    return Listening(node, lambda status: _edge(engine, node, status))


def _edge(engine: Engine, node: ProcessorNode, status: EdgeStatus) -> Edge:
    spec = registry.spec(PullSpec, node.plugin)
    topic, ledger, paths = engine.topic(node.targets[0]), engine.ledger, engine.paths
    synced = engine.pipeline.topic(topic.name).storage_config.get("fsync") == "always"
    named = getattr(getattr(node.config, "input", None), "format", None)

    def publish(chunk: Chunk | None, position: str, cancel: threading.Event) -> None:
        def dead(letter: DeadLetter) -> None:
            engine.dead.write(letter, cancel)

        _publish(node.name, topic, ledger, chunk, position, cancel, dead, synced=synced)

    context = PullContext(
        name=node.name,
        config=node.config,
        embedded_dir=paths.server(spec.system),
        schema_dir=None if named is None else schema_dir(paths, named),
        position=ledger.pulled(node.name),
        publish=publish,
        may_read=engine.may_read,
        status=status,
    )
    built: Edge = registry.build(spec, context)
    return built


def _publish(  # noqa: PLR0917 (one call's worth of facts, all of them needed)
    name: str,
    topic: Topic,
    ledger: Ledger,
    chunk: Chunk | None,
    position: str,
    cancel: threading.Event,
    dead: Callable[[DeadLetter], None],
    *,
    synced: bool,
) -> None:
    """Appends, commits and reveals as a transform's publish does; the journal entry is the commit point."""
    fit, letters = topic.fit(chunk) if chunk is not None else (None, [])
    # Before the commit: a letter that comes again is better than one that never came.
    for letter in letters:
        dead(letter._replace(processor=name))
    if fit is not None and not topic.wait_room(cancel):
        raise Unavailable(f'source "{name}" stops while it waits for room in topic "{topic.name}"')
    with topic.lock:
        number = ledger.next_number()
        try:
            if fit is not None:
                topic.stage_append(fit, number)
            entry = Pulled(number, name, position, {topic.name: At(topic.inc, topic.staged_end())})
            ledger.commit(entry, sync=synced)
        except BaseException:
            topic.rollback()
            raise
        topic.reveal()
        topic.trim()
    topic.announce()
