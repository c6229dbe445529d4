"""router: conditions in their order, as Spark columns or over Arrow columns in a hosted task."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gauss.contracts.format import FieldType, SourceField, SourceSchema
from gauss.contracts.processor import TOPIC
from gauss.model.errors import ConfigError
from gauss.plugins.processors.fields import dotted, path, plain, spark_column
from gauss.plugins.processors.router.spec import RouterConfig
from gauss.scan.program.check import check
from gauss.scan.program.ir import Kind, Typed
from gauss.scan.program.kinds import DECODED, schema_kinds
from gauss.scan.program.parse import parse

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame


class Router:
    """Says of each record where it goes."""

    def __init__(self, config: RouterConfig) -> None:
        self._routes = [(parse(route.when), route.topic) for route in config.routes]
        self._otherwise = config.otherwise
        self._typed: list[tuple[Typed, str]] = []

    def bind(self, schema: SourceSchema | None, output: SourceSchema | None) -> list[SourceField]:  # noqa: ARG002
        """The fields that the conditions name; without a schema all of them must use a field as one kind."""
        if schema is not None:
            kinds = schema_kinds(schema)
            self._typed = [(check(program, kinds), topic) for program, topic in self._routes]
            wanted = {name for program, _ in self._routes for name in program.paths()}
            return [field for field in schema.fields if plain(field.name) in wanted]
        kinds = self._inferred()
        self._typed = [(check(program, kinds), topic) for program, topic in self._routes]
        return [SourceField(path(name), FieldType(DECODED[kind])) for name, kind in kinds.items()]

    def _inferred(self) -> dict[str, Kind]:
        kinds: dict[str, Kind] = {}
        for program, _ in self._routes:
            for name, kind in check(program).kinds.items():
                known = kinds.setdefault(name, kind)
                if known is Kind.ANY:
                    kinds[name] = kind
                elif kind not in (known, Kind.ANY):
                    raise ConfigError(
                        f"one route takes .{name} for {known.value}, another for {kind.value}",
                        hint="give the input format `fields`",
                    )
        return kinds

    def apply(self, records: DataFrame) -> DataFrame:
        """The records that go somewhere, each with its topic."""
        from pyspark.sql import functions as F

        from gauss.scan.program.spark import compile_filter

        target = F.lit(self._otherwise)
        for typed, topic in reversed(self._typed):
            target = F.when(compile_filter(typed, spark_column), F.lit(topic)).otherwise(target)
        return records.select("_ts_ms", "_data", target.cast("string").alias(TOPIC)).where(F.col(TOPIC).isNotNull())

    def arrow(self, records: pa.RecordBatch) -> pa.RecordBatch:
        """The records that go somewhere, each with its topic."""
        import pyarrow as pa
        import pyarrow.compute as pc

        from gauss.scan.program.arrow import compile_filter

        fields = dotted(records)
        target = pa.repeat(pa.scalar(self._otherwise, pa.string()), len(records))
        for typed, topic in reversed(self._typed):
            target = pc.if_else(pc.fill_null(compile_filter(typed)(fields), False), topic, target)
        made = records.select(["_ts_ms", "_data"]).append_column(TOPIC, target)
        return made if target.null_count == 0 else made.filter(target.is_valid())
