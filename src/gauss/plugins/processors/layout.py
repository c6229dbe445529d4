"""The fields that a transform decodes and writes if it changes some fields and passes all others on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gauss.contracts.format import FILL, OTHER, RAW, FieldType, SourceField, SourceSchema
from gauss.contracts.transform import Traits
from gauss.model.errors import ConfigError
from gauss.model.names import DATA_COLUMN, REST, TS_MS_COLUMN
from gauss.plugins.processors.fields import path, plain, spark_column

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame


@dataclass(frozen=True)
class Layout:
    """The fields of such a transform. Names are dotted: `order.id` for the format's `$.order.id`."""

    fields: list[SourceField]
    """Fields to decode."""
    written: tuple[str, ...]
    """Fields to write, by the format's names, beside those that the transform makes."""
    carries: bool
    """Neither format has a schema: made fields are merged into the record, which otherwise stays unchanged."""

    def type_of(self, name: str) -> FieldType:
        """The type as which a field is decoded."""
        return next(field.field_type for field in self.fields if plain(field.name) == plain(name))

    def traits(self) -> Traits:
        """The traits of a transform that has this layout."""
        return Traits(self.fields, carries=self.carries)

    def arrow(self, records: pa.RecordBatch, made: Mapping[str, pa.Array]) -> pa.RecordBatch:
        """The records with the fields that were made."""
        import pyarrow as pa

        found = {plain(name): array for name, array in zip(records.schema.names, records.columns, strict=True)}
        columns = {TS_MS_COLUMN: found[TS_MS_COLUMN]} | ({REST: found[DATA_COLUMN]} if self.carries else {})
        found |= made
        columns |= {name: found[plain(name)] for name in self._names(made)}
        # A column that holds any value as its JSON text stays marked so.
        marks = {plain(field.name): field.metadata for field in records.schema if field.metadata}
        fields = [
            pa.field(name, array.type, metadata=None if plain(name) in made else marks.get(plain(name)))
            for name, array in columns.items()
        ]
        return pa.RecordBatch.from_arrays(list(columns.values()), schema=pa.schema(fields))

    def spark(self, records: DataFrame, made: Mapping[str, Column], keep: tuple[str, ...] = ()) -> DataFrame:
        """The records with the fields that were made, and some hidden columns."""
        from pyspark.sql import functions as F

        rest = [F.col(DATA_COLUMN).alias(REST)] if self.carries else []
        values = (
            (made[plain(name)] if plain(name) in made else spark_column(plain(name))).alias(name)
            for name in self._names(made)
        )
        return records.select(TS_MS_COLUMN, *keep, *rest, *values)

    def _names(self, made: Iterable[str]) -> list[str]:
        written = {plain(name) for name in self.written}
        marked = (RAW, FILL, OTHER)
        others = (name if name.startswith(marked) else path(name) for name in made if name not in written)
        return [*self.written, *(others if self.carries else ())]


def layout(
    schema: SourceSchema | None,
    output: SourceSchema | None,
    reads: Mapping[str, FieldType],
    makes: Iterable[str] = (),
) -> Layout:
    """`reads`: fields that the transform looks at, with the types to decode them as when no schema says it; `makes`:
    fields that need not be in the input. Raises ConfigError."""
    makes = [plain(name) for name in makes]
    if schema is None and output is None:
        return Layout([SourceField(path(name), kind) for name, kind in reads.items()], (), carries=True)
    if schema is None:
        assert output is not None
        known = {plain(field.name): field for field in output.fields}
        asked = {plain(name): SourceField(path(name), kind) for name, kind in reads.items()}
        decoded = {name: field for name, field in known.items() if name not in makes} | {
            name: known.get(name, field) for name, field in asked.items()
        }
        return Layout(list(decoded.values()), tuple(field.name for field in output.fields), carries=False)
    known = {plain(field.name): field for field in schema.fields}
    if missing := [name for name in reads if plain(name) not in known]:
        raise ConfigError(f"the input format has no field {', '.join(missing)}", hint=f"it has: {', '.join(known)}")
    written = [field.name for field in (output or schema).fields if not field.beside]
    if missing := [name for name in written if plain(name) not in known and plain(name) not in makes]:
        raise ConfigError(
            f"the output format writes {', '.join(missing)}, which the input format does not have",
            hint=f"it has: {', '.join(known)}",
        )
    if output is None:
        written += [path(name) for name in makes if name not in known]
    elif missing := [name for name in makes if name not in map(plain, written)]:
        raise ConfigError(f"the output format has no field {', '.join(missing)}", hint="add it to its schema")
    wanted = {*map(plain, written), *map(plain, reads)}
    fields = [field for name, field in known.items() if name in wanted and (name not in makes or name in reads)]
    return Layout(fields, tuple(written), carries=False)
