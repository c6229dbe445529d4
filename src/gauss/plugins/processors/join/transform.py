"""join: an index and a take over Arrow columns in a hosted task, a broadcast join on Spark."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from gauss.contracts.format import FILL, RAW, FieldType, SourceField, SourceSchema
from gauss.plugins.processors.constants import Constant, literal, repeated
from gauss.plugins.processors.fields import column_name, path, plain, spark_column
from gauss.plugins.processors.join.spec import JoinConfig
from gauss.plugins.processors.joined import Added, Adding
from gauss.plugins.processors.keys import ANY, arrow_texts, check_key, spark_texts
from gauss.plugins.processors.layout import Layout, layout

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame

    from gauss.contracts.processor import LookUp

KEY = "_join_key"


class Join:
    """A `TableTransform`."""

    def __init__(self, config: JoinConfig, add: Mapping[str, Constant] | None = None) -> None:
        """`add`: constants that every result has too."""
        self._config = config
        self._add = dict(add or {})
        self._key = plain(config.join_key)
        self._prefix = config.join_prefix or ""
        self._table_key = ""
        self._adding: Adding | None = None
        self._added: list[Added] | None = None
        self._layout: Layout | None = None
        self._table: LookUp | None = None

    @property
    def carries(self) -> bool:
        return self._layout is not None and self._layout.carries

    @property
    def table_fields(self) -> list[SourceField] | None:
        """What is decoded of the table's rows."""
        return None if self._added is None else [each.field for each in self._added]

    def bind_table(self, schema: SourceSchema | None, key: str) -> None:
        self._table_key = plain(key)
        self._adding = Adding(self._config, key, schema)

    def bind(self, schema: SourceSchema | None, output: SourceSchema | None) -> list[SourceField]:
        """Every field that is written and not the table's, and the key."""
        carries = schema is None and output is None
        assert self._adding is not None
        self._added = self._adding.fields(schema, output)
        reads = {path(self._key): ANY}
        reads |= {path(each.given): each.field.field_type for each in self._added or () if each.of_both and not carries}
        makes = dict.fromkeys([*(each.given for each in self._added or ()), *self._add])
        self._layout = layout(schema, output, reads, makes)
        check_key(self._key, self._kind)
        return self._layout.fields

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

    def apply(self, records: DataFrame) -> DataFrame:
        """The records with what the table holds for them."""
        from pyspark.sql import functions as F

        assert self._layout is not None and self._table is not None
        table = self._table.table(KEY)
        hidden = table.rename_columns([f"_found_{plain(name)}" for name in table.column_names])
        rows = F.broadcast(records.sparkSession.createDataFrame(hidden))
        key = spark_texts(spark_column(self._key), self._kind)
        joined = records.join(rows, key == F.col(f"_found_{KEY}"), self._config.join_type)
        made: dict[str, Column] = {}
        for name, given, of_both in self._made(table.column_names[1:]):
            made[given] = F.col(f"`_found_{plain(name)}`")
            if of_both and not self._layout.carries:
                made[given] = F.coalesce(spark_column(given), made[given])
        made |= {name: literal(value) for name, value in self._add.items()}
        return self._layout.spark(joined, made)

    def _made(self, names: list[str]) -> list[tuple[str, str, bool]]:
        """(column of the table, name in the result, whether the record may have it too)."""
        assert self._layout is not None
        if self._added is None:
            return [(name, FILL + RAW + self._prefix + name, True) for name in names if name != self._table_key]
        put = self._layout.carries
        return [(each.field.name, each.put() if put else each.given, each.of_both) for each in self._added]
