"""expression: runs a program's stages over Arrow columns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gauss.contracts.cursor import Program, Seq
from gauss.contracts.expression import Expr, Kind, Make
from gauss.contracts.format import FieldType, SourceField, SourceSchema
from gauss.contracts.transform import Schemas, Traits
from gauss.model.errors import ConfigError
from gauss.model.names import DATA_COLUMN, REST, TS_MS_COLUMN
from gauss.plugins.processors.expression.spec import ExpressionConfig
from gauss.plugins.processors.expression.stages import added, only_passed_on
from gauss.plugins.processors.fields import column_name, dotted, passed_on, path, plain
from gauss.scan.program.kinds import DECODED, schema_kinds
from gauss.scan.program.record_stages import copied, stages_of

if TYPE_CHECKING:
    import pyarrow as pa

    from gauss.scan.program.bound import Bound

TIME = "ts_ms"
"""The record's time, unless the format has a field of that name."""


class Expression:
    """Keeps, derives and renames, record by record; a row keeps its record's time."""

    def __init__(self, config: ExpressionConfig) -> None:
        self._adds = config.add is not None
        if config.program is not None:
            self._program = Program(Seq(), stages=stages_of(config.program), text=config.program)
        else:
            self._program = Program(Seq(), stages=(Make(tuple(_added(config.add or {}))),))
        self._bound: Bound | None = None
        self._passed: list[str] = []
        """Input fields that `add` passes on."""
        self._exact: dict[str, str] = {}
        """Columns that are copies of decimal fields, by field: programs compute in doubles, copies must stay exact."""
        self._carries = False
        """Neither format has a schema: added fields are merged into the record, which otherwise stays unchanged."""

    def bind(self, schemas: Schemas) -> Traits:
        """The fields that the program reads; with `add` all of them."""
        fields = self._fields(schemas.input, schemas.output)
        return Traits(fields, carries=self._carries)

    def _fields(self, schema: SourceSchema | None, output: SourceSchema | None) -> list[SourceField]:
        from gauss.scan.program.bound import bind

        if schema is None:
            if self._adds and output is not None:
                raise ConfigError(
                    "`add` needs to know the fields that are there", hint="give the input format `fields`, or a program"
                )
            self._carries = self._adds
            self._bound = bind(self._program)
            return [self._inferred(name, kind) for name, kind in self._bound.fields.items() if name != TIME]
        self._bound = bind(self._program, {TIME: Kind.INT} | schema_kinds(schema))
        decimals, kept = _decimals(schema), _decimals(output) if output is not None else None
        copies = copied(self._program.stages).items()
        self._exact = {to: of for to, of in copies if of in decimals and (kept is None or plain(to) in kept)}
        if self._adds:
            made = self._bound.columns or {}
            self._passed = [field.name for field in schema.fields if field.name not in made and not field.beside]
        wanted = {*self._bound.fields, *(name.removeprefix("$.") for name in self._passed)}
        return [field for field in schema.fields if field.name.removeprefix("$.") in wanted]

    def _inferred(self, name: str, kind: Kind) -> SourceField:
        """A field without a schema: as the program uses it, or as the first records have it if it only passes."""
        place = path(name)
        if kind is not Kind.ANY:
            return SourceField(place, FieldType(DECODED[kind]))
        if only_passed_on(self._program.stages, name):
            return SourceField(place, FieldType("auto"))
        if self._bound is None or self._bound.columns is not None:
            raise ConfigError(
                f"nothing says what .{name} is", hint="give the input format `fields`, or compare it with a literal"
            )
        return SourceField(place, FieldType(DECODED[kind]))

    def arrow(self, records: pa.RecordBatch) -> pa.RecordBatch:
        """The rows that the program makes."""
        import pyarrow as pa

        assert self._bound is not None
        made, indexes = self._bound.run(dotted(records))
        taken = None if indexes is None else pa.array(indexes)
        made = self._exactly(self._marked(made, records), records, taken)
        if self._carries:
            columns = [records.column(TS_MS_COLUMN), records.column(DATA_COLUMN), *made.columns]
            hidden = [pa.field(TS_MS_COLUMN, pa.int64()), pa.field(REST, pa.binary())]
            fields = [*hidden, *(field.with_name(path(field.name)) for field in made.schema)]
            return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))
        unchanged = self._bound.columns is None
        kept = passed_on(records) if unchanged else records.select([TS_MS_COLUMN, *self._passed])
        kept = kept if taken is None else kept.take(taken)
        if unchanged:
            return kept
        fields = [*kept.schema, *made.schema]
        return pa.RecordBatch.from_arrays([*kept.columns, *made.columns], schema=pa.schema(fields))

    def _exactly(self, made: pa.RecordBatch, records: pa.RecordBatch, taken: pa.Array | None) -> pa.RecordBatch:
        for name, source in self._exact.items():
            values = records.column(column_name(records, source))
            made = made.set_column(made.schema.names.index(name), name, values if taken is None else values.take(taken))
        return made

    def _marked(self, made: pa.RecordBatch, records: pa.RecordBatch) -> pa.RecordBatch:
        """The columns, with copies of JSON-text fields marked as such, so that they are not encoded as strings."""
        import pyarrow as pa

        marks = {plain(field.name): field.metadata for field in records.schema if field.metadata}
        if not marks:
            return made
        copies = copied(self._program.stages)
        fields = [field.with_metadata(marks.get(copies.get(field.name, ""))) for field in made.schema]
        return pa.RecordBatch.from_arrays(made.columns, schema=pa.schema(fields))


def _decimals(schema: SourceSchema) -> set[str]:
    return {plain(field.name) for field in schema.fields if field.field_type.name in ("decimal", "numeric")}


def _added(fields: dict[str, str]) -> Iterator[tuple[str, Expr]]:
    for name, text in fields.items():
        try:
            yield name, added(text)
        except ConfigError as error:
            raise ConfigError(f"add: {name}: {error.message}", hint=error.hint) from error
