"""flatten: repeats each record for every element of its array."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gauss.contracts.format import RAW, FieldType, SourceField, SourceSchema
from gauss.contracts.transform import Schemas, Traits
from gauss.model.errors import ConfigError
from gauss.plugins.processors.fields import column_name, path, plain
from gauss.plugins.processors.flatten.spec import FlattenConfig
from gauss.plugins.processors.layout import Layout, layout

if TYPE_CHECKING:
    import pyarrow as pa


class Flatten:
    """One record per array element, with the time of the record it came from."""

    def __init__(self, config: FlattenConfig) -> None:
        self._name = plain(config.field)
        self._keeps_empty = config.empty == "keep"
        self._layout: Layout | None = None

    @property
    def _made(self) -> str:
        """The column of elements; without any schema these are values in the format's own encoding."""
        assert self._layout is not None
        return RAW + path(self._name) if self._layout.carries else self._name

    def bind(self, schemas: Schemas) -> Traits:
        """Every field that is written; where only the output names the field, as an array of what it writes."""
        schema, output = schemas.input, schemas.output
        if schema is None and output is not None:
            output = SourceSchema(tuple(self._as_array(field) for field in output.fields), output.attrs)
        self._layout = layout(schema, output, {path(self._name): FieldType("array", {"element": "json"})})
        kind = self._layout.type_of(self._name)
        if kind.name != "array":
            raise ConfigError(f'"{self._name}" is {kind.name}: only an array can be flattened')
        return self._layout.traits()

    def _as_array(self, field: SourceField) -> SourceField:
        if plain(field.name) != self._name:
            return field
        kind = field.field_type
        return SourceField(field.name, FieldType("array", {"element": {"name": kind.name, "attrs": kind.attrs}}))

    def arrow(self, records: pa.RecordBatch) -> pa.RecordBatch:
        """A record per element."""
        import numpy as np
        import pyarrow as pa
        import pyarrow.compute as pc

        assert self._layout is not None
        column = column_name(records, self._name)
        arrays = records.column(column)
        counts = pc.fill_null(pc.list_value_length(arrays), 0).to_numpy(zero_copy_only=False)
        elements = pc.list_flatten(arrays)
        if self._keeps_empty and not counts.all():
            ends = np.cumsum(np.maximum(counts, 1))
            empty = np.zeros(ends[-1], bool)
            empty[ends[counts == 0] - 1] = True
            elements = elements.take(pa.array(np.cumsum(~empty) - 1, mask=empty))
            counts = np.maximum(counts, 1)
        parents = np.repeat(np.arange(len(arrays)), counts)
        kept = records.drop_columns([column]).take(pa.array(parents))
        return self._layout.arrow(kept, {self._made: elements})
