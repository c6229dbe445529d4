"""Whether a table may be emptied by a rebuild: only if every row in it is known to come from its topic."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gauss.contracts.table import INC_COLUMN, OFFSET_COLUMN
from gauss.model.errors import Rejected
from gauss.stream.engine.running import retry_inlet
from gauss.stream.graph import TABLE_PREFIX

if TYPE_CHECKING:
    from gauss.stream.engine.runtime import Engine


def refuse_rows_of_others(engine: Engine, name: str) -> None:
    """Raises when the table of a topic holds rows that the topic did not write, or rows that do not say who did."""
    if not engine.graph.topics[name].table:
        return
    from gauss.stream.tables import table_topic  # brings the table's client

    topic = table_topic(engine.pipeline, name, engine.base_dir, engine.paths)
    inlet = engine.topics[retry_inlet(TABLE_PREFIX + name)]
    try:
        others = topic.store.others(topic.target, [engine.topics[name].inc, -inlet.inc])
    finally:
        topic.store.close()
    table = topic.target.attrs["table"]
    if others is None:
        raise Rejected(
            f'table "{table}" of topic "{name}" can\'t be emptied: its rows have no {INC_COLUMN} and {OFFSET_COLUMN},'
            " so it is not known which of them this topic wrote",
            hint="empty the table by SQL, then read everything again: gauss readers seek TOPIC PROCESSOR earliest",
        )
    if others:
        raise Rejected(
            f'table "{table}" of topic "{name}" can\'t be emptied: {others:,} of its rows were not written by this'
            f" topic in this data directory ({INC_COLUMN} is another)",
            hint="remove those rows by SQL, or give the processor a target of its own",
        )
