"""filter: evaluates a condition over Arrow columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gauss.contracts.expression import Typed
from gauss.contracts.format import FieldType, SourceField, SourceSchema
from gauss.contracts.transform import Schemas, Traits
from gauss.model.errors import ConfigError
from gauss.model.names import TS_MS_COLUMN
from gauss.plugins.processors.fields import dotted, selected
from gauss.plugins.processors.filter.spec import FilterConfig
from gauss.scan.program.check import check
from gauss.scan.program.kinds import DECODED, field_kind, schema_kinds
from gauss.scan.program.parse import parse

if TYPE_CHECKING:
    import pyarrow as pa


class Filter:
    """Keeps the records for which `where` is true, as bytes or encoded in the output format."""

    def __init__(self, config: FilterConfig) -> None:
        self._config = config
        self._program = parse(config.where)
        self._typed: Typed | None = None
        self._columns: list[str] | None = None
        """Columns to encode; None: bytes pass unchanged."""

    def bind(self, schemas: Schemas) -> Traits:
        """The fields that the expression names; with an output format also those that it writes."""
        return Traits(self._fields(schemas.input, schemas.output))

    def _fields(self, schema: SourceSchema | None, output: SourceSchema | None) -> list[SourceField]:
        if schema is not None:
            known = {field.name.removeprefix("$."): field for field in schema.fields}
            self._typed = check(self._program, schema_kinds(schema))
            if self._config.output is not None:
                self._columns = [field.name for field in (output or schema).fields if not field.beside]
                if missing := [name for name in self._columns if name.removeprefix("$.") not in known]:
                    raise ConfigError(
                        f"the output format writes {', '.join(missing)}, which the input format does not have",
                        hint=f"it has: {', '.join(known)}",
                    )
            wanted = {*self._program.paths(), *(name.removeprefix("$.") for name in self._columns or [])}
            return [field for name, field in known.items() if name in wanted]
        # Without a schema the use of a field says its kind, and an output's fields their types; when neither side
        # has one, the rest of the object is carried along by passing the bytes.
        inferred = check(self._program)
        written = {} if output is None else {field.name.removeprefix("$."): field for field in output.fields}
        if written:
            self._columns = [field.name for field in written.values()]
        kinds = inferred.kinds | {n: field_kind(f.field_type) for n, f in written.items() if n in inferred.kinds}
        self._typed = check(self._program, kinds)
        named = [
            SourceField(f"$.{name}" if "." in name else name, FieldType(DECODED[kind]))
            for name, kind in inferred.kinds.items()
            if name not in written
        ]
        return [*named, *written.values()]

    def arrow(self, records: pa.RecordBatch) -> pa.RecordBatch:
        """The records that match."""
        from gauss.scan.program.arrow import compile_filter

        assert self._typed is not None
        fields = dotted(records)
        keep = compile_filter(self._typed)(fields)
        if self._columns is None:
            return selected(records, keep)
        names = [TS_MS_COLUMN, *self._columns]
        return fields.select([name.removeprefix("$.") for name in names]).filter(keep).rename_columns(names)
