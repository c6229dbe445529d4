"""enrich: adds constants, and fields that a lookup table has for the record's key."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gauss.contracts.format import FieldType
from gauss.contracts.transform import Schemas, Traits
from gauss.model.errors import ConfigError
from gauss.plugins.processors.constants import repeated
from gauss.plugins.processors.enrich.spec import EnrichConfig
from gauss.plugins.processors.enrich.table import KEY, table_of
from gauss.plugins.processors.fields import column_name, is_text, path, plain
from gauss.plugins.processors.join.spec import JoinConfig
from gauss.plugins.processors.join.transform import Join
from gauss.plugins.processors.layout import Layout, layout

if TYPE_CHECKING:
    import pyarrow as pa


def enrich(config: EnrichConfig) -> Enrich | Join:
    """The transform: a look-up in a topic is a join that drops no record."""
    lookup = config.lookup
    if lookup is None or lookup.topic is None:
        return Enrich(config)
    given = {"join_topic": lookup.topic, "join_key": lookup.key, "join_type": "left"}
    names = {"join_fields": lookup.fields, "join_prefix": lookup.prefix}
    made = {**given, **{key: value for key, value in names.items() if value is not None}}
    io = {"input": config.input, "output": config.output}
    return Join(JoinConfig.model_validate({**made, **io}), config.add)


class Enrich:
    """Adds fields to records."""

    def __init__(self, config: EnrichConfig) -> None:
        self._add = config.add
        self._key = plain(config.lookup.key) if config.lookup else ""
        self._table: pa.Table | None = table_of(config.lookup) if config.lookup else None
        self._layout: Layout | None = None

    @property
    def _found(self) -> list[str]:
        """The fields that the lookup adds; a constant of the same name wins."""
        if self._table is None:
            return []
        return [name for name in self._table.column_names if name != KEY and name not in self._add]

    def bind(self, schemas: Schemas) -> Traits:
        """Every field that is written and not made here, and the key."""
        reads = {path(self._key): FieldType("string")} if self._key else {}
        self._layout = layout(schemas.input, schemas.output, reads, [*self._add, *self._found])
        if self._table is not None:
            self._table = self._table.set_column(0, KEY, self._keys(self._layout.type_of(self._key)))
        return self._layout.traits()

    def _keys(self, kind: FieldType) -> pa.ChunkedArray:
        """The table's keys in the type of the record's."""
        import pyarrow as pa

        from gauss.contracts.field_types import arrow_type

        assert self._table is not None
        if not is_text(kind) and not pa.types.is_integer(arrow_type(kind)):
            raise ConfigError(f'"{self._key}" is {kind.name}: a key must be text or a whole number')
        try:
            return self._table.column(KEY).cast(arrow_type(kind))
        except pa.ArrowInvalid as error:
            raise ConfigError(f'the lookup\'s keys must be {kind.name} as "{self._key}" is: {error}') from error

    def arrow(self, records: pa.RecordBatch) -> pa.RecordBatch:
        """The records with the fields added."""
        import pyarrow.compute as pc

        assert self._layout is not None
        made = {name: repeated(value, len(records)) for name, value in self._add.items()}
        if self._table is not None:
            keys = records.column(column_name(records, self._key))
            places = pc.index_in(keys, value_set=self._table.column(KEY).combine_chunks(), skip_nulls=True)
            made |= {name: self._table.column(name).combine_chunks().take(places) for name in self._found}
        return self._layout.arrow(records, made)
