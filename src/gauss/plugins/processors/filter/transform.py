"""filter: an expression as a Spark column, or over Arrow columns in a hosted task."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gauss.contracts.format import FieldType, SourceField, SourceSchema
from gauss.model.errors import ConfigError
from gauss.plugins.processors.filter.spec import FilterConfig
from gauss.scan.program.check import check
from gauss.scan.program.ir import Kind, Typed
from gauss.scan.program.parse import parse

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame

_KINDS = {
    "float": Kind.NUMBER,
    "double": Kind.NUMBER,
    "decimal": Kind.NUMBER,
    "bool": Kind.BOOL,
    "string": Kind.STRING,
    "varchar": Kind.STRING,
    "json": Kind.ANY,
}
_TYPES = {Kind.NUMBER: "double", Kind.STRING: "string", Kind.BOOL: "bool", Kind.ANY: "json"}


def kind_of(field_type: FieldType) -> Kind:
    """What the expression language makes of a field type."""
    if field_type.name.startswith(("int", "uint")):
        return Kind.INT
    return _KINDS.get(field_type.name, Kind.OPAQUE)


class Filter:
    """Keeps the records for which `where` is true, as bytes or written anew."""

    def __init__(self, config: FilterConfig) -> None:
        self._config = config
        self._program = parse(config.where)
        self._typed: Typed | None = None
        self._columns: list[str] | None = None
        """What is written anew; None: bytes pass unchanged."""

    def bind(self, schema: SourceSchema | None, output: SourceSchema | None) -> list[SourceField]:
        """The fields that the expression names; with an output format also what that one writes."""
        if schema is not None:
            known = {field.name.removeprefix("$."): field for field in schema.fields}
            self._typed = check(self._program, {name: kind_of(field.field_type) for name, field in known.items()})
            if self._config.output is not None:
                self._columns = [field.name for field in (output or schema).fields]
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
        kinds = inferred.kinds | {n: kind_of(f.field_type) for n, f in written.items() if n in inferred.kinds}
        self._typed = check(self._program, kinds)
        named = [
            SourceField(f"$.{name}" if "." in name else name, FieldType(_TYPES[kind]))
            for name, kind in inferred.kinds.items()
            if name not in written
        ]
        return [*named, *written.values()]

    def apply(self, records: DataFrame) -> DataFrame:
        """The records that match."""
        from gauss.scan.program.spark import compile_filter

        assert self._typed is not None
        kept = records.where(compile_filter(self._typed, column))
        if self._columns is None:
            return kept.select("_ts_ms", "_data")
        return kept.select("_ts_ms", *(column(name.removeprefix("$.")).alias(name) for name in self._columns))

    def arrow(self, records: pa.RecordBatch) -> pa.RecordBatch:
        """The records that match."""
        from gauss.scan.program.arrow import compile_filter

        assert self._typed is not None
        dotted = records.rename_columns([name.removeprefix("$.") for name in records.schema.names])
        keep = compile_filter(self._typed)(dotted)
        if self._columns is None:
            return records.select(["_ts_ms", "_data"]).filter(keep)
        names = ["_ts_ms", *self._columns]
        return dotted.select([name.removeprefix("$.") for name in names]).filter(keep).rename_columns(names)


def column(name: str) -> Column:
    """A field by its dotted name; fields of nested objects are struct fields, a spread array keeps its path."""
    from pyspark.sql import functions as F

    if "[*]" in name:
        return F.col(f"`$.{name}`")
    return F.col(".".join(f"`{part}`" for part in name.split(".")))
