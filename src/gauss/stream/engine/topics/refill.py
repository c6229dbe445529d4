"""Refills memory tables from file topics when the engine starts, before anything reads them."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from gauss.contracts.cursor import Code, OffsetRange, Output, Program, Step
from gauss.contracts.edge import EngineTransform
from gauss.contracts.processor import Role, Where
from gauss.contracts.storage import ReadMode
from gauss.stream.engine import building
from gauss.stream.engine.delivery.epochs import held
from gauss.stream.engine.journal.ledger import Ledger
from gauss.stream.engine.topics.table_topic import TableTopic
from gauss.stream.engine.topics.topic import Topic
from gauss.stream.graph import Graph

STEP = Step(limit=65_536, max_bytes=4 << 20, fill=False)

log = logging.getLogger(__name__)


def refill(graph: Graph, topics: Mapping[str, Topic], ledger: Ledger) -> None:
    """Fills each such table with the published results of its transforms from the retained records; the transforms
    continue behind them."""
    for node in graph.on(Where.ENGINE):
        if node.role is not Role.TRANSFORM or node.sources[0].read != ReadMode.OFFSET:
            continue
        table, source = topics[node.targets[0]], topics.get(node.sources[0].topic)
        done = held(ledger.row(node.name), node.sources[0].topic)
        if isinstance(table, TableTopic) and source is not None and done is not None and done.inc == source.inc:
            count = _copied(source, done.off, building.transform(node), table)
            log.info("table %s: filled again from %d records of topic %s", table.name, count, source.name)


def _copied(source: Topic, stop: int, transform: EngineTransform, table: TableTopic) -> int:
    """Number of records that passed the transform; dead letters are not written again."""
    start = source.floor()
    if start >= stop:
        return 0
    cursor = source.open(Program(OffsetRange(start, stop), output=Output.CHUNKS))
    try:
        while cursor.next(STEP) is Code.OK:
            _, placed = cursor.read()
            assert isinstance(placed, list)
            for offset, chunk in placed:
                made = transform.apply(chunk, offset).chunk
                fitting = table.fit(made)[0] if made is not None and made.count else None
                if fitting is not None:
                    with table.lock:
                        table.stage_append(fitting, 0)
                        table.reveal()
    finally:
        cursor.close()
    return stop - start
