"""symbol-filter: looks a field up in a set of texts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gauss.contracts.format import FieldType, SourceField
from gauss.contracts.transform import Schemas, Traits
from gauss.model.errors import ConfigError
from gauss.plugins.processors.fields import is_text, path, plain, selected
from gauss.plugins.processors.symbol_filter.spec import SymbolFilterConfig

if TYPE_CHECKING:
    import pyarrow as pa


class SymbolFilter:
    """Keeps the records whose field is listed."""

    def __init__(self, config: SymbolFilterConfig) -> None:
        self._symbols = sorted(set(config.symbols))
        self._field = SourceField(path(config.field), FieldType("string"))

    def bind(self, schemas: Schemas) -> Traits:
        """The one field, which must be text."""
        if (schema := schemas.input) is not None:
            known = {plain(field.name): field for field in schema.fields}
            name = plain(self._field.name)
            if name not in known:
                raise ConfigError(f'the input format has no field "{name}"', hint=f"it has: {', '.join(known)}")
            self._field = known[name]
            if not is_text(self._field.field_type):
                raise ConfigError(
                    f'"{name}" is {self._field.field_type.name}, and symbols are text',
                    hint=f"use filter, e.g. where = '.{name} == 7'",
                )
        return Traits([self._field])

    def arrow(self, records: pa.RecordBatch) -> pa.RecordBatch:
        """The records that are listed."""
        import pyarrow as pa
        import pyarrow.compute as pc

        listed = pc.is_in(records.column(self._field.name), value_set=pa.array(self._symbols, pa.string()))
        return selected(records, listed)
