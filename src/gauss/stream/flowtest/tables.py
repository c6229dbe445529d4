"""The rows of the tables that a test case wrote."""

from __future__ import annotations

from gauss.clients.embedded import contents
from gauss.clients.endpoint import Endpoint
from gauss.model.names import INC_COLUMN, OFFSET_COLUMN
from gauss.stream.flowtest.records import Found
from gauss.tables.mapped_table import MappedTable


def table_rows(topic: MappedTable, system: str, endpoint: str | Endpoint) -> list[Found]:
    """The mapped columns of a table's rows, in record order if the table has `_offset`."""
    fields = [field.name for field in topic.target.fields]
    names = [name for name in fields if name not in (INC_COLUMN, OFFSET_COLUMN)]
    rows = contents(system).table_rows(
        endpoint,
        topic.target,
        names,
        order_by=OFFSET_COLUMN if OFFSET_COLUMN in fields else "",
        replaced=topic.store.ordered,
    )
    return [dict(zip(names, row, strict=True)) for row in rows]
