"""expression: a program's stages as Spark columns, or over Arrow columns in a hosted task."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gauss.contracts.cursor import Program, Seq
from gauss.contracts.format import FieldType, SourceField, SourceSchema
from gauss.contracts.processor import REST
from gauss.model.errors import ConfigError
from gauss.plugins.processors.expression.spec import ExpressionConfig
from gauss.plugins.processors.expression.stages import added, copied, only_passed_on, stages_of
from gauss.plugins.processors.fields import column_name, dotted, path, plain, spark_column
from gauss.scan.program.ir import Expr, Kind, Make
from gauss.scan.program.kinds import DECODED, schema_kinds

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

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
        """Fields of the input that `add` leaves as they are."""
        self._exact: dict[str, str] = {}
        """Columns that are decimals of the input as they are: a program counts in doubles, a copy needs none."""
        self.carries = False
        """No side has a schema: what `add` makes is put into the record, the rest of which stays as it came."""

    def bind(self, schema: SourceSchema | None, output: SourceSchema | None) -> list[SourceField]:
        """The fields that the program reads; with `add` all of them."""
        from gauss.scan.program.bound import bind

        if schema is None:
            if self._adds and output is not None:
                raise ConfigError(
                    "`add` needs to know the fields that are there", hint="give the input format `fields`, or a program"
                )
            self.carries = self._adds
            self._bound = bind(self._program)
            return [self._inferred(name, kind) for name, kind in self._bound.fields.items() if name != TIME]
        self._bound = bind(self._program, {TIME: Kind.INT} | schema_kinds(schema))
        decimals, kept = _decimals(schema), _decimals(output) if output is not None else None
        copies = copied(self._program.stages).items()
        self._exact = {to: of for to, of in copies if of in decimals and (kept is None or plain(to) in kept)}
        if self._adds:
            self._passed = [field.name for field in schema.fields if field.name not in (self._bound.columns or {})]
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

    def apply(self, records: DataFrame) -> DataFrame:
        """The rows that the program makes."""
        from gauss.scan.program.spark import compile_stages

        assert self._bound is not None
        keep, made = compile_stages(self._bound, spark_column)
        kept = records if keep is None else records.where(keep)
        if made is None:
            return kept.select("_ts_ms", "_data")
        made |= {name: spark_column(source) for name, source in self._exact.items()}
        if self.carries:
            rest = records["_data"].alias(REST)
            return kept.select("_ts_ms", rest, *(value.alias(path(name)) for name, value in made.items()))
        passed = (spark_column(name.removeprefix("$.")).alias(name) for name in self._passed)
        return kept.select("_ts_ms", *passed, *(value.alias(name) for name, value in made.items()))

    def arrow(self, records: pa.RecordBatch) -> pa.RecordBatch:
        """The rows that the program makes."""
        import pyarrow as pa

        assert self._bound is not None
        made, indexes = self._bound.run(dotted(records))
        taken = None if indexes is None else pa.array(indexes)
        made = self._exactly(self._marked(made, records), records, taken)
        if self.carries:
            columns = [records.column("_ts_ms"), records.column("_data"), *made.columns]
            hidden = [pa.field("_ts_ms", pa.int64()), pa.field(REST, pa.binary())]
            fields = [*hidden, *(field.with_name(path(field.name)) for field in made.schema)]
            return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))
        hidden = ["_ts_ms", "_data"] if self._bound.columns is None else ["_ts_ms", *self._passed]
        kept = records.select(hidden)
        kept = kept if taken is None else kept.take(taken)
        if self._bound.columns is None:
            return kept
        fields = [*kept.schema, *made.schema]
        return pa.RecordBatch.from_arrays([*kept.columns, *made.columns], schema=pa.schema(fields))

    def _exactly(self, made: pa.RecordBatch, records: pa.RecordBatch, taken: pa.Array | None) -> pa.RecordBatch:
        for name, source in self._exact.items():
            values = records.column(column_name(records, source))
            made = made.set_column(made.schema.names.index(name), name, values if taken is None else values.take(taken))
        return made

    def _marked(self, made: pa.RecordBatch, records: pa.RecordBatch) -> pa.RecordBatch:
        """The same columns; copies of those that hold any value as its JSON text say so, lest it be written as text."""
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
