"""router: the first condition that is true decides a record's topic."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gauss.contracts.expression import Kind, Typed
from gauss.contracts.format import FieldType, SourceField
from gauss.contracts.transform import Schemas, Traits
from gauss.model.errors import ConfigError
from gauss.model.names import TOPIC_COLUMN
from gauss.plugins.processors.fields import dotted, passed_on, path, plain
from gauss.plugins.processors.router.spec import RouterConfig
from gauss.scan.program.check import check
from gauss.scan.program.kinds import DECODED, schema_kinds
from gauss.scan.program.parse import parse

if TYPE_CHECKING:
    import pyarrow as pa


class Router:
    """Names the target topic of each record."""

    def __init__(self, config: RouterConfig) -> None:
        self._routes = [(parse(route.when), route.topic) for route in config.routes]
        self._otherwise = config.otherwise
        self._typed: list[tuple[Typed, str]] = []

    def bind(self, schemas: Schemas) -> Traits:
        """The fields that the conditions name; without a schema all of them must use a field as one kind."""
        if (schema := schemas.input) is not None:
            kinds = schema_kinds(schema)
            self._typed = [(check(program, kinds), topic) for program, topic in self._routes]
            wanted = {name for program, _ in self._routes for name in program.paths()}
            return Traits([field for field in schema.fields if plain(field.name) in wanted])
        kinds = self._inferred()
        self._typed = [(check(program, kinds), topic) for program, topic in self._routes]
        return Traits([SourceField(path(name), FieldType(DECODED[kind])) for name, kind in kinds.items()])

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

    def arrow(self, records: pa.RecordBatch) -> pa.RecordBatch:
        """The records that a condition or `otherwise` matches, each with its topic."""
        import pyarrow as pa
        import pyarrow.compute as pc

        from gauss.scan.program.arrow import compile_filter

        fields = dotted(records)
        target = pa.repeat(pa.scalar(self._otherwise, pa.string()), len(records))
        for typed, topic in reversed(self._typed):
            target = pc.if_else(pc.fill_null(compile_filter(typed)(fields), False), topic, target)
        made = passed_on(records).append_column(TOPIC_COLUMN, target)
        return made if target.null_count == 0 else made.filter(target.is_valid())
