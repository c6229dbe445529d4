"""join: looks records up in a table by their key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from gauss.contracts.format import FILL, RAW, FieldType
from gauss.contracts.transform import Schemas, Traits
from gauss.plugins.processors.added_fields import Added, Adding
from gauss.plugins.processors.constants import Constant, repeated
from gauss.plugins.processors.fields import column_name, path, plain
from gauss.plugins.processors.join.spec import JoinConfig
from gauss.plugins.processors.keys import ANY, arrow_texts, check_key
from gauss.plugins.processors.layout import Layout, layout

if TYPE_CHECKING:
    import pyarrow as pa

    from gauss.contracts.transform import LookUp


class Join:
    """A `TableTransform`."""

    def __init__(self, config: JoinConfig, add: Mapping[str, Constant] | None = None) -> None:
        """`add`: constants that every result has too."""
        self._config = config
        self._add = dict(add or {})
        self._key = plain(config.join_key)
        self._prefix = config.join_prefix or ""
        self._table_key = ""
        self._added: list[Added] | None = None
        self._layout: Layout | None = None
        self._table: LookUp | None = None

    def bind(self, schemas: Schemas) -> Traits:
        """Every field that is written and not the table's, and the key."""
        schema, output = schemas.input, schemas.output
        carries = schema is None and output is None
        self._table_key = plain(schemas.table_key)
        self._added = Adding(self._config, schemas.table_key, schemas.table).fields(schema, output)
        reads = {path(self._key): ANY}
        reads |= {path(each.given): each.field.field_type for each in self._added or () if each.of_both and not carries}
        makes = dict.fromkeys([*(each.given for each in self._added or ()), *self._add])
        self._layout = layout(schema, output, reads, makes)
        check_key(self._key, self._kind)
        found = None if self._added is None else [each.field for each in self._added]
        return replace(self._layout.traits(), table_fields=found)

    @property
    def _kind(self) -> FieldType:
        assert self._layout is not None
        return self._layout.type_of(self._key)

    def look_up_in(self, table: LookUp) -> None:
        self._table = table

    def arrow(self, records: pa.RecordBatch) -> pa.RecordBatch:
        """The records with what the table holds for them."""
        import pyarrow.compute as pc

        assert self._layout is not None and self._table is not None
        keys = arrow_texts(records.column(column_name(records, self._key)), self._kind)
        found, rows = self._table.find(keys)
        if self._config.join_type == "inner" and not pc.all(found).as_py():
            records, rows = records.filter(found), rows.filter(found)
        made = {}
        for name, given, of_both in self._made(rows.schema.names):
            made[given] = rows.column(name)
            if of_both and not self._layout.carries:
                made[given] = pc.coalesce(records.column(column_name(records, given)), rows.column(name))
        made |= {name: repeated(value, len(records)) for name, value in self._add.items()}
        return self._layout.arrow(records, made)

    def _made(self, names: list[str]) -> list[tuple[str, str, bool]]:
        """(column of the table, name in the result, whether the record may have it too)."""
        assert self._layout is not None
        if self._added is None:
            return [(name, FILL + RAW + self._prefix + name, True) for name in names if name != self._table_key]
        put = self._layout.carries
        return [(each.field.name, each.put() if put else each.given, each.of_both) for each in self._added]
